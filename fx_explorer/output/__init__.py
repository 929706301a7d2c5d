"""This package prints results: a table whose columns are declared once, as text, markdown, CSV and
JSON.
"""
