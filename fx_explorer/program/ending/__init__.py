"""How a program ended, in words, and how the worker ends."""
