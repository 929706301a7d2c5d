"""Flame charts of any kind: frames that lie within each other, and their blocks in cells of a terminal."""
