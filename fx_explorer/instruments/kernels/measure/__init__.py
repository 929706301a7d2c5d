"""This package has the processes that build and measure single kernels, and the limits that they
run under.
"""
