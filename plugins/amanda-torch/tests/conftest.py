"""What pytest collects here."""

collect_ignore = ["programs.py"]  # imports PyTorch; for test_exported_programs.py
