"""Graph breaks are recorded here, and the time that calls spend at them."""
