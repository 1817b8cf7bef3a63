"""Where rows come from, and how files are written: arrays and files."""
