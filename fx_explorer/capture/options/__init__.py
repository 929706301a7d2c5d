"""The options of the compiler are read and set here, with what torch says of each."""
