"""This package groups graph breaks, computes the cost of each and the tensors that cross it, and
finds whose code broke.
"""
