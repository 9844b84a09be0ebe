"""Reductions, cumulative ops, sorting, statistics."""
