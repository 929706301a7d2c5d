"""What a bench says: figures with their intervals, who is faster, from which size on, in words."""
