"""Dynamic shapes: each way of compiling them tried on the user's program."""
