"""The bytecode before and after Dynamo is recorded here, and its steps."""
