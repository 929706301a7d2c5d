"""The parts of the main screen: what its top and bottom lines say, its outline, its overview, its
views and its cursor.
"""
