"""Losses and updates that train models with Stein discrepancies; networks and optimisers are the caller's."""

from slicestein.learning.amortised import amortised_sliced_svgd, amortised_svgd

__all__ = ["amortised_sliced_svgd", "amortised_svgd"]
