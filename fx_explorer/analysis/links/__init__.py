"""Places in a session and what is highlighted with them: from a line of the user to a line of a
kernel, and back.
"""
