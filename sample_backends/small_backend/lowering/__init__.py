"""From a segment of the graph to a program: nests of loops, made simple, over buffers that share an arena."""
