"""Kernels: what they compute, how each is configured, built and measured, which resources of the
GPU it takes, and how fast it can be.
"""
