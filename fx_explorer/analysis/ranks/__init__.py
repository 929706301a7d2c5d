"""Several ranks of one job: where they agree, where they first diverge, and who waits for whom.
Pure functions over sessions and over small summaries of them.
"""
