"""What every hook writes with: the state of a capture, and graphs, links, sources and values as
rows.
"""
