"""The user's program in the worker: how it is found, loaded, called and called again, and how it
ended. Needs the standard library and torch only.
"""
