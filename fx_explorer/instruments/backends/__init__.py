"""This package describes the backends of torch.compile: what each supports, where and why it splits
graphs, and the stages that it publishes.
"""
