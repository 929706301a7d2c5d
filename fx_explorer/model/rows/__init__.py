"""The rows of a session: one frozen dataclass a table."""
