"""How long phases of compiling spend on each line of the user's."""
