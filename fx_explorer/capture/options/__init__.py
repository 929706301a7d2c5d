"""The options of the compiler: what there is, what it says of itself, and setting it."""
