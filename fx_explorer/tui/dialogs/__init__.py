"""Screens that ask the user something, and what they list."""
