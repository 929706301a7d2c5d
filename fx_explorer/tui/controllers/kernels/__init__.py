"""Kernels one by one: compiled below their source, in other configurations, measured alone."""
