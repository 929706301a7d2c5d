"""Where the time of one call goes: measured in the process that runs the program."""
