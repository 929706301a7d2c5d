"""This package is the worker process, which finds the user's target, runs it under the recorder,
and reports how it ended. No other package imports it.
"""
