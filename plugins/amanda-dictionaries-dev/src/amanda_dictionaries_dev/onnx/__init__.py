"""Extract the dictionaries of ONNX."""
