"""Regions, marked in the program or by hand, followed through every stage."""
