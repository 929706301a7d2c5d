"""Rows about how fast a program runs."""
