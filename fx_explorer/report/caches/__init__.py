"""What torch's compile caches answered, as JSON."""
