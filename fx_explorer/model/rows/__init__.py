"""This package has the rows of a session: frozen dataclasses, one for each table."""
