"""Other front ends than Dynamo, each called once with the target: what graph it makes of it, or why
it refuses.
"""
