"""A session that anybody may have written: opened read-only, with limits, every value checked, and
no code of it run.
"""
