"""Calls of the target beside the first: again, with other inputs, and timed."""
