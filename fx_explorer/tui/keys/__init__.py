"""The keys: as Textual binds them, those that it does not bind, and what was moved since the last release."""
