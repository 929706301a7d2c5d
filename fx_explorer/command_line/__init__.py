"""What the subcommands share: options, sessions they are given or capture first, narration, files
they write.
"""
