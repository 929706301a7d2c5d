"""The user's names of everything that torch.compile renames: what graphs are given, sizes,
values that guards look at, functions. The app, the command line and the reports ask here, and
nowhere else.
"""
