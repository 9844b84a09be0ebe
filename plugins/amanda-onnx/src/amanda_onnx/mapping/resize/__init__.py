"""Resampling of images: Resize, Upsample, GridSample, AffineGrid."""
