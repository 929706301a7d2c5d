"""Graph breaks, and the time that calls spend at them."""
