"""Reductions by segment."""
