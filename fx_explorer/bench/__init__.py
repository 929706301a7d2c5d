"""Drive a bench: plan its cells, start a process for each, have them take turns, keep what they
measure.
"""
