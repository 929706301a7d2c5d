"""The recorder: everything torch.compile does, turned into rows of a session. Standard library and
torch only.
"""
