"""Scripts: what their runs have in common is compared."""
