"""Backends: what each supports, where it cuts graphs and why, and what it publishes of itself."""
