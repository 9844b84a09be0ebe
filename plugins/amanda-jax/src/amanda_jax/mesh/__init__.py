"""Execution over several devices: sharding of inputs, weights and results."""
