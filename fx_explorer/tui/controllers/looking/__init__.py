"""Looking at what was captured: panes, tables, kernels, regions, and what is found, followed and
copied of them.
"""
