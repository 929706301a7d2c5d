"""Tables whose rows lie in each other."""
