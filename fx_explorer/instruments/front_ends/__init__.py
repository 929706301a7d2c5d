"""Other front ends than Dynamo: what each sees of the target that Dynamo does not, and the other
way round.
"""
