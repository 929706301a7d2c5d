"""This package has every SQL query of a session file under a name: one module for each subject.

A query returns what is stored; ``analysis`` and the packages above it interpret it. Most select a
few columns, since whole rows (``SessionReader.rows``) take longer to decode than to find.
"""
