"""What is done while the user reads the first screen, so that no key waits for it."""
