"""Each stage of a compilation is described here: what went in, what came out, and what happened to
what.
"""
