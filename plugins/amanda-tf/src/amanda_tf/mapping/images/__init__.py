"""Images: resizing, colours, boxes, blocks."""
