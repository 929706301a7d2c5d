"""This package shows which kernels Inductor kept apart although they access the same memory, why,
and what one kernel for both would save.
"""
