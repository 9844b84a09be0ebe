"""Reductions: ReduceSum, ReduceMean and the rest."""
