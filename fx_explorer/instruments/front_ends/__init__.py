"""This package compares other front ends with Dynamo: which parts of the target are only in
Dynamo's graphs, and which only in theirs.
"""
