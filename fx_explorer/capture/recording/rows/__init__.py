"""Turn torch's objects into rows of the session: graphs, values, source lines and stacks."""
