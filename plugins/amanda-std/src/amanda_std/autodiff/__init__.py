"""Gradients: reverse-mode differentiation from graph to graph."""
