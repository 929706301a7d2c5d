"""What torch has, as rows of the session: graphs, values, source lines and stacks."""
