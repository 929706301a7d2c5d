"""This package has the virtual GPU, which does not exist: torch.compile generates the code for it,
but nothing can be run on it.

All of this holds for the whole process until its end: it is meant for a worker, which ends with its
request. ``installing.py`` says what is done, in which order.
"""
