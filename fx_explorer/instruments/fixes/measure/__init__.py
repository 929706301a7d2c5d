"""Hold a changed program against the original: the same calls, and everything they leave behind."""
