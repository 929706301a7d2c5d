"""The recorder turns everything that torch.compile does into rows of a session. It needs the
standard library and torch only.
"""
