"""Rows about kernels: generated, built, launched."""
