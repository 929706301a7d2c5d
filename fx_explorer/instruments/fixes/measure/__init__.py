"""This package compares a changed program with the original: both make the same calls, and
everything that the calls leave behind is compared.
"""
