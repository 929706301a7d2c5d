"""What each stage of a compilation did: what went in, what came out, and what happened to what."""
