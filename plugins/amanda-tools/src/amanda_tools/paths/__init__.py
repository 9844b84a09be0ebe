"""Effective paths: the neurons that explain a result."""
