"""Extract the dictionaries of TensorFlow."""
