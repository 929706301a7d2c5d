"""Dialogs ask the user something, and list what can be chosen."""
