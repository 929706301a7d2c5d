"""Answers are printed with what is here: a table whose columns are declared once, and its text,
markdown, CSV and JSON.
"""
