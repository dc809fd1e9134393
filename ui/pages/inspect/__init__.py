"""The parts of the Inspect page: what a session holds of one question, and how it is shown."""
