"""Other ways that were taken from a stage of a compilation, and what each shares with the first."""
