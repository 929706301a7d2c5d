"""Where the time of compiling goes: phases within phases, down to the modules and lines of the
user.
"""
