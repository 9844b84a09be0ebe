"""Attention layers: scaled dot-product, multi-head, flexible, linear; RoPE."""
