"""Kernels: their texts, where they are in graphs and code, and what their lines compute."""
