"""The kernels that Inductor generates: their calls, their code, and the node of each line."""
