"""Ranks of a job as text, markdown and JSON."""
