"""Where torch is met: its releases, its functions that are replaced, and its structured trace."""
