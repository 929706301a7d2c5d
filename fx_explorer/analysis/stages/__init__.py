"""What each stage of a compilation did: what went in, what came out, and what became of what."""
