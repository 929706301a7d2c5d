"""Other front ends than Dynamo, each called once with the target."""
