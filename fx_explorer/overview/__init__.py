"""A session as a whole is described here: its findings, how the program ended, what it holds and
how to find anything in it.
"""
