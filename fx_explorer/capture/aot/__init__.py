"""This package records AOTAutograd's work: the partition into forward and backward, the values
saved between them, and regions.
"""
