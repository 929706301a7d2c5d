"""Driving a compilation: where it waits, what can be changed there, and the ways that are taken from each stage."""
