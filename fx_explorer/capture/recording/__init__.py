"""What every hook writes with: the state of a capture, graphs, links, sources and values as rows."""
