"""Widgets that know nothing of sessions: lists, code, one line, a text to type."""
