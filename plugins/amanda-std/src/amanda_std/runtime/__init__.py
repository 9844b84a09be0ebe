"""The numpy backend: kernels, memory plan, state and the step runner."""
