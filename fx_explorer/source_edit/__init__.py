"""Changes of the user's source: a file is read by its syntax tree (libcst), changed in its text,
and written back in place.

``code.py`` finds where things stand, ``bound_names.py`` what an expression reads and binds;
``edits.py`` has the changes, and ``writing.py`` puts several into one text and writes them to the
files, with backups. What a file was and becomes is a ``FileEdit``.
"""
