"""This package has the screens, which fill the terminal: the main one with its parts, and those
that open above it.
"""
