"""This module names the types of texts that occur in many rows, such as the condition of a guard
that each recompile repeats: each text is stored once.
"""

RepeatedText = str
"""The type of such a field. A long text is stored once, and a text similar to another one as its
difference.
"""

RepeatedName = str
"""The same for a field with few different values (a path, the name of a phase); from a certain
length on each is stored once.
"""
