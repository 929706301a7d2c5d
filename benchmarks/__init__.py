"""Measurements of the budgets we promise: each module is one command that prints a ratio or a
percentile.
"""
