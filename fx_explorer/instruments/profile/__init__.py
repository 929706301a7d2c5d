"""A profile of torch.profiler beside a session: what its times belong to."""
