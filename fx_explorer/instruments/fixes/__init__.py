"""This package fixes graph breaks: fixes are proposed, tried, compared with the original, and
written to the user's file.

``api.py`` is what others use of it. Nothing is imported here: ``measure/`` runs in the user's
interpreter, which lacks what changes source (libcst).
"""
