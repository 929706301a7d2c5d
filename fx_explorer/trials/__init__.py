"""The same program captured once more with something changed, by a worker of its own, and held
against the session at hand.

``recapture`` is the one way to do it; each file beside it says what is changed, what is looked for,
and what the result means. A trial of a fix stands in ``instruments/fixes/``, which knows what a fix is.
"""
