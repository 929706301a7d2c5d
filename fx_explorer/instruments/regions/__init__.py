"""Regions that are compiled by themselves: the table of them, and what a report says."""
