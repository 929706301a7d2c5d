"""How a capture goes, told on stderr while it runs: what is compiled, why, in which phase, since
when.
"""
