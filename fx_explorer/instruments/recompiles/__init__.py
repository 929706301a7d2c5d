"""This package explains recompiles: why a function was compiled again, and how to avoid it."""
