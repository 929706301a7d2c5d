"""This package shows why kernels are as they are: library calls, copies and layouts, split
reductions, tiles, vectors and threads.
"""
