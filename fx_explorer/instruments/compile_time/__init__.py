"""This package shows where the time of compiling goes: phases within phases, down to the user's
modules and lines. It explains torch's compile caches, too: their hits and misses, why they were
bypassed, and which part of a key differs between two runs.
"""
