"""What the overview says of one thing each: a bench, a ledger, a backend, front ends."""
