"""Graph breaks: grouped, what each costs and cuts, and whose code broke."""
