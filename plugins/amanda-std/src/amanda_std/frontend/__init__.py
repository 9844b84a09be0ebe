"""Ways to write graphs in Python: traced functions and named axes."""
