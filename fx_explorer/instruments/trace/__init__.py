"""What Dynamo did, line by line of the source: calls that it inlined, nodes, guards, restarts."""
