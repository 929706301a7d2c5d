"""This package compares other front ends with Dynamo: which parts of the target each of them sees
and the other does not.
"""
