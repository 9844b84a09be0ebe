"""Pruning: weights set to zero, and channels removed."""
