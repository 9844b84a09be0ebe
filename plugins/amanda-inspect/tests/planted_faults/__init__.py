"""Faults planted in model files, and whether `amanda bisect` names them."""
