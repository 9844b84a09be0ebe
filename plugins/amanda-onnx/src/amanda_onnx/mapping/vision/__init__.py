"""Object detection and images: RoiAlign, NonMaxSuppression, ImageDecoder."""
