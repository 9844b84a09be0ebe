"""Attention, FlexAttention, linear attention and rotary position embedding."""
