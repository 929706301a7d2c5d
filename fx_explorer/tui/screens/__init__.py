"""Screens fill the terminal: the main one, whose parts stand here too, and those that open above
it.
"""
