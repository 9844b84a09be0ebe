"""Reductions, cumulative ops, arguments of extrema, sorting."""
