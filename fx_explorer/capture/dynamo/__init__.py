"""Dynamo: its graphs, the calls of torch.compile, and what it left to Python."""
