"""The cluster bench: a discrete-event simulation of routing."""
