"""The sessions of earlier captures, which the one on screen is compared with."""
