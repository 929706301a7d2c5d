"""Recompiles: why something was compiled again, and what avoids it."""
