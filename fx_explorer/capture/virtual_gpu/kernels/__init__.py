"""Kernels for the GPU that is not there, compiled down to the machine's code."""
