"""This package records Dynamo's work: its graphs, the calls of torch.compile, and the code that it
leaves to eager mode.
"""
