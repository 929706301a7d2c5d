"""This package writes reports on a session for readers without the app: documents made from the
results of ``fx_explorer.analysis``.
"""
