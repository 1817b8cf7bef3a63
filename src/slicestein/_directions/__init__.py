"""Where to look: slices that tell samples from a model, and coordinates in which the model is round."""
