"""The rows of a session are frozen dataclasses, one for each table."""
