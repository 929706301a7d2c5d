"""How the program and the compiler are made to see a GPU that is not there."""
