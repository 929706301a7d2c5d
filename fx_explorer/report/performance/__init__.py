"""What was measured or predicted of speed and memory, as reports and pictures."""
