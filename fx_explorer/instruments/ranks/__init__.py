"""Several ranks of one job: found in a folder, read in parallel, where they first diverge, and who
waits for whom.
"""
