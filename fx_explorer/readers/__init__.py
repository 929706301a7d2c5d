"""Readers make sessions of what other programs left behind: one file or folder a format.

A reader needs no torch, trusts nothing it reads, runs nothing, and changes nothing but the session
it writes.
"""
