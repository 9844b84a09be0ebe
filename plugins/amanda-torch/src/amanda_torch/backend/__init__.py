"""The backend `torch`: graphs of the hub, run op by op by PyTorch."""
