"""`python -m bench cache`: the knowledge tree, on the real engine and simulated."""
