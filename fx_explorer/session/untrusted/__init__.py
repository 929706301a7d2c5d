"""This package handles sessions from unknown authors: they are opened read-only, with limits, every
value is checked, and no code in them is run.
"""
