"""The terminal app. Asks ``analysis`` and the session reader for everything it shows; never imports
torch.

What a screen says is decided by functions that do not draw: those of ``selection/``, ``inspector/``
(all but ``levels.py``) and ``status/`` take a session and give rows, words and documents. Questions
about the session itself are asked of ``analysis``, so that reports and commands get the same
answers.

Before the first paint nothing is imported that it does without. What later keys need is imported
while the user reads (``idle.py``), and what few sessions have, when it is asked for.
"""
