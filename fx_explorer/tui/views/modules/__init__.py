"""The view of the user's modules."""
