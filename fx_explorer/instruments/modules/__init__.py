"""The user's modules as a tree, and what torch.compile made of each of them."""
