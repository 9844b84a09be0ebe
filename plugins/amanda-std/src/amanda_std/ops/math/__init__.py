"""Elementwise functions, reductions, scans and sorting."""
