"""This package handles the user's program in the worker: how it is found, loaded, called and called
again, and how it ended. It needs the standard library and torch only.
"""
