"""What is the user's in the worker: their code and lines, the functions they replace, their torch."""
