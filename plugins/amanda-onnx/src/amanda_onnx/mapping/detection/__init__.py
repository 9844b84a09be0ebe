"""Detection: RoiAlign, NonMaxSuppression; pooling with indices, Col2Im, Unique."""
