"""The memory of a training step: what is alive after each kernel, and why the peak is as high as it
is.
"""
