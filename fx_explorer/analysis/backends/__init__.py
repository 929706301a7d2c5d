"""What a backend supports, where it cuts graphs and why, read from a session."""
