"""Extract the dictionaries of OpenVINO."""
