"""This package answers whether compiled code computes what eager mode does, and which operator is
the first that differs.
"""
