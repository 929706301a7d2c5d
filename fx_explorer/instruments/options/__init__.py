"""The compiler's options: what they mean, their values in a session, and what another value would
change.
"""
