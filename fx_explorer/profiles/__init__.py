"""Profiles of torch.profiler: read, joined to a session, and kept in it."""
