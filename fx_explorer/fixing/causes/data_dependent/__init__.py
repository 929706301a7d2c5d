"""Breaks where Python needs to know a tensor's value, or a size that depends on one."""
