"""This package shows the user's modules as a tree, with the results of torch.compile for each of
them.
"""
