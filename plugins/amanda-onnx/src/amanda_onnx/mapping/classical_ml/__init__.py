"""The domain ai.onnx.ml: linear models, encoders, scalers, SVMs and tree ensembles."""
