"""This package shows what each of Inductor's passes changed in a graph, and which passes made,
changed or removed a node.
"""
