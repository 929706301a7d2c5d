"""This package shows regions that are compiled by themselves: their table, and their part of the
report.
"""
