"""Questions about a session and their answers, as data of a bounded length, for programs and
agents: ``fx-explorer ask``, ``fx-explorer mcp`` and ``report --section`` as JSON.
"""
