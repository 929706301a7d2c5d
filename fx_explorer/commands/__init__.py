"""This package has the subcommands, one file each. A module offers ``add_arguments(parser)`` and
``run(arguments) -> int`` (the exit code).

``fx_explorer/cli.py`` lists them and imports the one that is chosen.
"""
