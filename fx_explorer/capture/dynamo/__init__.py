"""Dynamo's work is recorded here: its graphs, the calls of torch.compile, and what it leaves to
eager mode.
"""
