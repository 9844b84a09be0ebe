"""Static and dynamic shapes: static values, bucketing, padding."""
