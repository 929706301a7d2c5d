"""What backends support and publish of themselves, and how often what they made is called."""
