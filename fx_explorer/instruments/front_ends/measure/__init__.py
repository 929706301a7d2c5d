"""This package runs front ends other than Dynamo, each once on the target."""
