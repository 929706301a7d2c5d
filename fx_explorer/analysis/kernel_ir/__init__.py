"""The levels below a kernel, from Triton source down to SASS: their lines, passes and
instructions.
"""
