"""The configurations and candidates that Inductor times or would time."""
