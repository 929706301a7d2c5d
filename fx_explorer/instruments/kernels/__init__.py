"""This package describes kernels: what they compute, how each is configured, built and measured,
which resources of the GPU it uses, and how fast it can be.
"""
