"""From the folder of a run to outputs: in Python, in a graph, from a command, in evaluations."""
