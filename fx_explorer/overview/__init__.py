"""What a session as a whole says: its findings, how the program ended, what it holds and how to
find anything in it.
"""
