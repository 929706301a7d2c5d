"""A profile that is given beside a session."""
