"""Regions, marked in the program or by hand, through every stage."""
