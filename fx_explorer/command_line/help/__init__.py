"""What ``--help`` prints: examples first, and bold headings where a person reads."""
