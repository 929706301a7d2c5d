"""What backends tell of themselves, and how often what they made is called."""
