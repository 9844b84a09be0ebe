"""Elementwise ops: arithmetic, comparisons, logic, bits, special functions."""
