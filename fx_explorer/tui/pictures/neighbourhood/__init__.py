"""The neighbourhood of a node as a picture: boxes, lines, and frames around what a kernel fuses."""
