"""Where rows come from: arrays and files."""
