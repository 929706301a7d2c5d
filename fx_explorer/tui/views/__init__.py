"""The views that are tables, as plain data made from analysis. There are no widgets here, so that
they are tested as data.
"""
