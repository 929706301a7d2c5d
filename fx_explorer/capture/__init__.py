"""The recorder and the worker: the code that runs in the user's interpreter. Standard library and torch only."""
