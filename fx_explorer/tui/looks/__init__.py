"""The colours of everything, and how a message in the corner looks."""
