"""The subcommands share what is here: options, sessions they are given or capture first, narration,
files they write.
"""
