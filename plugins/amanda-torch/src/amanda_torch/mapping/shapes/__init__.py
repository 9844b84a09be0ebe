"""Shapes, views, joins and splits, padding."""
