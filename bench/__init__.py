"""Measurements: workloads, paired runs, rows that other programs read. Run `python -m bench --help`."""
