"""Elementwise ops: arithmetic, comparisons, logic, bits, activations."""
