"""This package makes the ledger of a call: where its time goes, which lines got slower, and what
would help.
"""
