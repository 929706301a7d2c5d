"""Anybody may have written a session: it is opened read-only, with limits, every value is checked,
and no code of it is run.
"""
