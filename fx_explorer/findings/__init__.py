"""The findings of a session: what is wrong with a program under torch.compile, where, what it costs
and what can be done. There is one module for each kind.
"""
