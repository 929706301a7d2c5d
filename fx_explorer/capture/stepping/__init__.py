"""Stepping through a compilation: where it waits, which commands it accepts there, and what they
do.
"""
