"""This package describes each stage of a compilation: its input, its output, and what happened to
each node.
"""
