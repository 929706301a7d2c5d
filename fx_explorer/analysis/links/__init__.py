"""A place in a session is linked to others, which are highlighted with it: from a line of the user
to a line of a kernel, and back.
"""
