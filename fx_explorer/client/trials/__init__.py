"""The same program captured again with something changed, by a worker of its own."""
