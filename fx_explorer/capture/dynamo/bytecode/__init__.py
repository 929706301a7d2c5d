"""The bytecode before and after Dynamo, and its steps."""
