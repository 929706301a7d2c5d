"""Graph breaks: grouped, what each costs, what it cuts, and whose code broke."""
