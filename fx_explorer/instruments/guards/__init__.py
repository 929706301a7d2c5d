"""This package explains guards: what compiled code checks before it is used again, and the sizes
that vary.
"""
