"""This package shows why kernels are the way they are: library calls, copies and layouts, split
reductions, tiles, vectors and threads.
"""
