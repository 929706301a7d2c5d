"""Questions are asked of a session here: pure functions over a SessionReader, shared by the app,
the reports and the checks.

Nothing here draws, prints or imports torch.
"""
