"""What changed from one capture of a program to the next."""
