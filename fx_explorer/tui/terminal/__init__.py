"""This package handles the terminal around the app: its input, its colours, and the programs beside
it.
"""
