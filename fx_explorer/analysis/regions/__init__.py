"""Regions are followed here through every stage, whether they are marked in the program or by
hand.
"""
