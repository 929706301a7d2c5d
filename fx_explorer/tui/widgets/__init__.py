"""Widgets show lists, code, one-line texts and an input line; they know nothing of sessions."""
