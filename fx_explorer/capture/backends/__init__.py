"""This package records what backends say about their support, the stages that they publish, and the
calls of their compiled functions.
"""
