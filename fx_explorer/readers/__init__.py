"""What other programs left behind, read into sessions: one file or folder a format.

A reader needs no torch, trusts nothing it reads, runs nothing, and changes nothing but the session
it writes.
"""
