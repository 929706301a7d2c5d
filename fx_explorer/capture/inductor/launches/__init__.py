"""Kernels on a real GPU: how they were built, timed and launched."""
