"""Intervals, regressions, laws: knows nothing of runs."""
