"""Processes that the program starts: each records its own compilations."""
