"""What a session holds, as a table of contents, and anything in it by what was typed."""
