"""Kernels: what they compute, how each is configured, which resources of the GPU it takes, and how
fast it can be.
"""
