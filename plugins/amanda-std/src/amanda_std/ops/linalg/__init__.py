"""Linear algebra: products, factorizations, solvers."""
