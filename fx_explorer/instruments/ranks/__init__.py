"""This package compares the ranks of one job: it finds their files in a folder, reads them in
parallel, and shows where they first diverge, and which rank waits for which.
"""
