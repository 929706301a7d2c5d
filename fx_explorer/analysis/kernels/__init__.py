"""Kernels: what they compute, how each is configured, what it takes of the GPU, and how fast it can be."""
