"""Stepping through a compilation: where it waits, what the user can say there, and what is done then."""
