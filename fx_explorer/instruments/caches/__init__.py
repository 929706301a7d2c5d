"""This package explains torch's compile caches: their hits and misses, why they were bypassed, and
which part of a key differs between two runs.
"""
