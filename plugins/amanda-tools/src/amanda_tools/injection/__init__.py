"""Faults: bit flips and noise in weights and activations, and campaigns of them."""
