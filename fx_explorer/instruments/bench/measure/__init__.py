"""This package measures one cell of a bench in the user's interpreter: sizes, calls, times, and
whether results agree.
"""
