"""This instrument has facts about values: aliases, views and changes of a graph's inputs and
outputs, tensors of other classes (DTensors), and the collectives of a graph.
"""
