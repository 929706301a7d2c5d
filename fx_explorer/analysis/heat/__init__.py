"""Which kernels compute a line of the source, and what part of the time they are."""
