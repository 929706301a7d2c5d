"""The terminal around the app is spoken to here: its input, its colours, and the programs beside
it.
"""
