"""This package measures where the time of one call goes, in the process that runs the program."""
