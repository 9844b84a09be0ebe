"""Fourier transforms and spectral analysis."""
