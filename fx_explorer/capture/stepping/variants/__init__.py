"""Variants that set out from a finished stage, and what is kept so that a stage need not run
again.
"""
