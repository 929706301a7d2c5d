"""Answers as they are printed: a table whose columns are declared once, and its text, markdown, CSV
and JSON.
"""
