"""What is known about the place under the cursor, and the levels of a kernel."""
