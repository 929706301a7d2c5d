"""AOTAutograd: partition into forward and backward, what is saved between them, and regions."""
