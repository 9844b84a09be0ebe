"""OpenVINO: what makes the dictionary of its opsets."""
