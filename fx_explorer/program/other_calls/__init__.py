"""Calls of the target with other inputs than its own."""
