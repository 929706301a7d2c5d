"""This package is used by every hook: it has the state of a capture, and writes graphs, links,
sources and values as rows.
"""
