"""Special functions: gamma, Bessel, orthogonal polynomials."""
