"""Which node of an earlier stage each node came from, and which line of a kernel of the user."""
