"""Goodness-of-fit tests to compare with, as published; each file is an article, its method object at the end."""
