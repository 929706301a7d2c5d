"""The checks behind ``fx-explorer doctor``."""
