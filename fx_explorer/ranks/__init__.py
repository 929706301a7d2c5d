"""Many logs and sessions at once, one or several for each rank of a job: found in a directory, read
in parallel, compared by ``analysis/ranks``.
"""
