"""What torch's compile caches answered, why they were not asked, and which part of a key differs
between two runs.
"""
