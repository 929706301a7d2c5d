"""This package has the widgets: lists, code, one-line texts and an input line. They do not use
sessions.
"""
