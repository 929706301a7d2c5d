"""Backends say what they support and publish stages of their own: both are recorded here, and how
often what they made is called.
"""
