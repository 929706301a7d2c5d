"""This package steps through a capture: its modules know where a compilation waits, which commands
it accepts there, and how they are carried out.

While a capture inspects, its first pause is after Dynamo of *all* graphs. They run in eager mode
anyway, so the program is let through, and every graph break is seen. The graphs are compiled when
the user continues, in the contexts that Dynamo would have set up (after_the_program.py). A pause at
each graph would let a program with five graph breaks go five times before the last one is seen.
With ``--build``, and with ``--step``, each graph waits in its place.
"""
