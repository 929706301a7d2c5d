"""Rows about backends: what they publish, how what they made runs, and what they support."""
