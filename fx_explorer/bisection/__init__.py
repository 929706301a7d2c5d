"""Which commit of the user's repository, or which release of torch, made a condition fail: the
search, the repository, and the facts that changed. The command is in commands/bisect.py.
"""
