"""Pictures in panes."""
