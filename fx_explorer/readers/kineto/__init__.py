"""Reads what ``torch.profiler`` exports: chrome traces written by Kineto, plain or packed with
gzip.

This is the format alone. What the times belong to is ``instruments/profile/``.
"""
