"""TensorArray and TensorList, as one tensor with an axis for the elements."""
