"""This package explains the compiler's options: what they do, their values in a session, and what
another value would change.
"""
