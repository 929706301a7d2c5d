"""This package describes a session as a whole: its findings, how the program ended, what is in it
and how to search it.
"""
