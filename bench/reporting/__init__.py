"""Tables and plots from measured rows."""
