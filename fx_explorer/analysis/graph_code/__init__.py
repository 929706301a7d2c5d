"""This package writes a graph, from its rows, as Python to copy and run, as FX's own table, and as
a script that runs it alone.
"""
