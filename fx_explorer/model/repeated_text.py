"""This module names the types of texts that occur in many rows, such as the condition of a guard
that each recompile repeats: each text is stored once.
"""

RepeatedText = str
"""Type of a field whose texts repeat. A long text is stored once, and a text similar to another one
as its difference.
"""

RepeatedName = str
"""Type of a field with few different values (a path, the name of a phase). From a certain length
on, each value is stored once.
"""
