"""This package is the terminal app, which shows a session, or a capture while it runs. It gets all
data from ``analysis`` and the session reader; it never imports torch.

What a screen says is decided by functions that do not draw: those of ``content/`` take a session
and give rows, words and documents. Questions about the session itself are asked of ``analysis``, so
that reports and commands get the same answers.

Before the first paint nothing is imported that it does without. What later keys need is imported
while the user reads (``idle.py``), and what few sessions have, when it is asked for.
"""
