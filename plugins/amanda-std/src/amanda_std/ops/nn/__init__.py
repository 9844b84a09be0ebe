"""Neural network layers, activations and losses."""
