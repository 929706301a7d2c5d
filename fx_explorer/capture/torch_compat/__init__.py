"""torch is met here: its releases, its functions that are replaced, and its structured trace."""
