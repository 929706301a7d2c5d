"""Pictures: charts above the rows of a view, and what is drawn in a pane."""
