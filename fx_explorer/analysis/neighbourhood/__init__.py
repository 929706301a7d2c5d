"""What stands around a node: two steps up to what it is made from, two steps down to what uses it."""
