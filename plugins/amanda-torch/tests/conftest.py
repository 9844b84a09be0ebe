"""What pytest collects here."""

collect_ignore = ["programs.py", "exported_calls.py"]  # they import PyTorch
