"""Ops of early opsets, and what early opsets lack."""
