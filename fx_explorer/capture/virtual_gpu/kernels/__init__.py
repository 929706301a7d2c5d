"""Kernels for the GPU that is not there, compiled to machine code."""
