"""A log in the place of a target: read, followed, or read by the app."""
