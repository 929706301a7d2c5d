"""Changes of a graph at a gate: regions marked by hand, and passes out of a file."""
