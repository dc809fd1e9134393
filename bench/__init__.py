"""Benchmarks: workloads, paired runs, and JSON rows. Run `python -m bench --help`."""
