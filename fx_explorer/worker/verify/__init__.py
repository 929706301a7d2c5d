"""Whether a changed program does what the original does."""
