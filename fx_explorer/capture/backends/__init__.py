"""What a backend supports of the graphs that it is given: asked, partitioned, counted, recorded."""
