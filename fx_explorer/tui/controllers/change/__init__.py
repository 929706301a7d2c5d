"""After a change of the program: what came of it, and what on screen is older than the files."""
