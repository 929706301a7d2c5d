"""The first screen: what a run did, in plain words, and the conditions that CI checks it for."""
