"""Widgets that show lines of text: their layout, how they are painted, searched and compared."""
