"""Everything that can be seen of a call from outside, as values that another process can read."""
