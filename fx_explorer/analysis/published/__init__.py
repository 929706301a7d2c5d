"""Backends beside Inductor: what they publish of their own stages, and what their runs tell."""
