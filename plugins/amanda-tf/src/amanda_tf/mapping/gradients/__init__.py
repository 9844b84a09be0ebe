"""Gradients of ops, as TensorFlow's training graphs have them."""
