"""This package has one folder for each instrument: its measurements, figures, sentences, view and
command.

``measure/`` runs in the worker, beside the user's program, and needs the standard library and torch
only. ``view.py`` is rows for a table of the app, ``screen.py`` a screen of its own; ``report.py``
and ``picture.py`` are for reports, ``command.py`` for the command line. The other modules are
figures: pure functions over a session, and all that one instrument may use of another.
"""
