"""Shared parts of formats that are protobuf messages."""
