"""What goes wrong and does not end the app: a session that cannot be read, and faults of our own."""
