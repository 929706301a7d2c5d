"""The user's program: found, loaded, given inputs, and called."""
