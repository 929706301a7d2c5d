"""This package runs the program and its graphs in the user's interpreter, and compares the values
of their nodes.
"""
