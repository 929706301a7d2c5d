"""Why something was compiled again, and what avoids it."""
