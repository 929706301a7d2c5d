"""What a ledger says: where the time of one call goes, which lines got slower, and what would help."""
