"""A GPU that is not there: torch.compile generates the code that it would run, and nothing can be run on it.

All of it holds for the whole process and for good: it is meant for a worker, which ends with its request. ``installing.py``
says what is done, in which order.
"""
