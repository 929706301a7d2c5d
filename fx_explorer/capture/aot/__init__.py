"""AOTAutograd's work is recorded here: the partition into forward and backward, what is saved
between them, and regions.
"""
