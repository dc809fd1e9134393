"""Widgets and HTML parts that several pages share."""
