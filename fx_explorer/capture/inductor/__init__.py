"""Inductor's work is recorded here: graphs after its passes, its IR, its kernels, how they are
tuned and launched.
"""
