"""What is known of a session as a whole: its totals, its figures, and whether a log made it."""
