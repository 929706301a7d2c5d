"""Graphs: their nodes, what these come from and belong to, and what stands before and after a
stage.
"""
