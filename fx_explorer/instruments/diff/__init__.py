"""Two graphs, kernels, variants or sessions side by side."""
