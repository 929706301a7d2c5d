"""What the program and the compiler are told of the GPU that is not there."""
