"""One cell of a bench, measured in the user's interpreter: sizes, calls, times, and whether results
agree.
"""
