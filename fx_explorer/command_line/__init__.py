"""This package has what the subcommands share: options, sessions they are given or capture first,
narration, output files.
"""
