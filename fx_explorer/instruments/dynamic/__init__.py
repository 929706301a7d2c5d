"""This package compares the ways of compiling dynamic shapes on the user's program."""
