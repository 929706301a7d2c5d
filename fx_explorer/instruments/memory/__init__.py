"""This package predicts the memory of a training step: what is allocated after each kernel, and why
the peak is as high as it is.
"""
