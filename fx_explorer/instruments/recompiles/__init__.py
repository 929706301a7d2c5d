"""This package explains recompiles: why a function was recompiled, and how to avoid it."""
