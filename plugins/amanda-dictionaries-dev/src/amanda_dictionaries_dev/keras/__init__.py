"""Extract the dictionaries of Keras."""
