"""What is selected, what follows it, and what panes show for it."""
