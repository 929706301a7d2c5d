"""The number and the colour of a kernel, the same in every pane, and what lines of the source cost."""
