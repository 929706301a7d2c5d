"""Every hook writes with what is here: the state of a capture, and graphs, links, sources and
values as rows.
"""
