"""Everything that is asked of a session file in SQL stands here by name: one file for each thing
that is asked about.

A query says what is there; what it means is said by ``analysis`` and by those above it. Most select
a few columns, since whole rows (``SessionReader.rows``) take longer to decode than to find.
"""
