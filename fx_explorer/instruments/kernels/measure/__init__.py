"""Processes that build and measure single kernels, and what they are confined to."""
