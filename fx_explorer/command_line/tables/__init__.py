"""Tables as text: fitted to the terminal where a person reads, one line a row where a program does."""
