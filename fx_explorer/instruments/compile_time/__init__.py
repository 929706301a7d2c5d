"""This package shows where the time of compiling goes: phases within phases, down to the user's
modules and lines.
"""
