"""Edits of a graph at a gate: regions marked by hand, and passes from a file."""
