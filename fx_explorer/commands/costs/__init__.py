"""Subcommands that say where time and memory go."""
