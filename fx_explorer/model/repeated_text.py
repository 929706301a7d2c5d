"""This module names the type of texts that many rows have, such as the condition of a guard that
each recompile has again: each text is stored once.
"""

RepeatedText = str
"""The type of such a field: the session keeps a long one once among its texts, and of one that is
like another what differs.
"""

RepeatedName = str
"""The same for a field of few values (a path, the name of a phase), which are kept once from some
characters on.
"""
