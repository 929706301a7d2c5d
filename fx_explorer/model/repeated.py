"""A text of a row that many rows have alike, such as the condition of a guard that each recompile has again."""

RepeatedText = str
"""The type of such a field: the session keeps a long one once, among its texts."""
