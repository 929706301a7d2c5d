"""What draws the charts that stand above the rows of a view."""
