"""Elementwise (pointwise) ops: arithmetic, comparisons, logic, activations."""
