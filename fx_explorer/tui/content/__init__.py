"""This package computes what the screen shows from a session, as rows, words and documents. It has
no widgets, so that it can be tested as data.
"""
