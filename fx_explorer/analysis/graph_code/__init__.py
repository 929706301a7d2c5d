"""A graph is written here as Python to copy and run, as FX's own table, and as a script that runs
it alone. All of it is written from rows.
"""
