"""This package has every SQL query of a session file under a name: one module for each subject.

A query says what is there; what it means is said by ``analysis`` and by those above it. Most select
a few columns, since whole rows (``SessionReader.rows``) take longer to decode than to find.
"""
