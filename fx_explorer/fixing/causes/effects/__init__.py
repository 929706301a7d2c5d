"""Breaks where the code acts outside the graph: it writes, or changes something that is not a
tensor.
"""
