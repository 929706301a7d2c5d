"""The options of the compiler: what they mean, their values in a session, and what another value changes."""
