"""This package benchmarks a program: the cells of a bench are planned, each is measured in a
process of its own, and they are compared: which way is faster, from which size on.
"""
