"""Factorizations, solvers, determinants, norms of matrices."""
