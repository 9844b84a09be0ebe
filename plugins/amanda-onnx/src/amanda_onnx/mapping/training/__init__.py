"""The domain ai.onnx.preview.training: gradients and optimizer steps."""
