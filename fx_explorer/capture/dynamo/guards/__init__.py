"""Guards are recorded here, with what made them fail and what they say of other inputs."""
