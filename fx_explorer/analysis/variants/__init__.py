"""The variants of a compilation: what makes each differ, and what it shares with the one that it
set out from.
"""
