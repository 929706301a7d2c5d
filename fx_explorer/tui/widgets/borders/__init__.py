"""Borders between widgets that are dragged with the mouse to give one of the two more room."""
