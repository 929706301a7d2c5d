"""Other ways from a stage that is through, and what is kept so that a stage need not run again."""
