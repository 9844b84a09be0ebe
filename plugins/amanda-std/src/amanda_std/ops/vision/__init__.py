"""Images: resizing, sampling, cropping, boxes."""
