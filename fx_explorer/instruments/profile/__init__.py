"""This package joins a profile of torch.profiler to a session, to find where its times belong."""
