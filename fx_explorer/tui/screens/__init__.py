"""The main screen, and the small ones that open above it."""
