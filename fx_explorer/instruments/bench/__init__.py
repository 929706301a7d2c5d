"""A bench: its cells are planned, each measured by a process of its own, and compared: who is
faster, from which size on.
"""
