"""Panes fill the screen between the pipeline bar and the footer: linked panes, tables, the
overview.
"""
