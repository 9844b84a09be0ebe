"""Extract the dictionaries of onnxruntime."""
