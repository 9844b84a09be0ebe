"""Extract the dictionaries of TensorFlow Lite."""
