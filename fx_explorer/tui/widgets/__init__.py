"""Widgets that know nothing of sessions: lists, code, one-line texts, an input line."""
