"""The view of a job's ranks: an app of its own, from which the session of a rank is opened."""
