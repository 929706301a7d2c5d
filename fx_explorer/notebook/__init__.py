"""This package shows sessions in a notebook: sessions as objects that show their overview, blocks
that are recorded, and the cell magic ``%%fx``.
"""
