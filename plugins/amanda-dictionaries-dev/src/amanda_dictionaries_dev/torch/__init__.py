"""Extract the dictionaries of PyTorch."""
