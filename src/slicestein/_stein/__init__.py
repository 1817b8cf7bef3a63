"""The sliced Stein operator and the sums of it: formulas, engines, tiles."""
