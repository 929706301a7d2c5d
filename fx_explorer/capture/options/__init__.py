"""This package reads and sets the options of the compiler, with torch's documentation of each."""
