"""What is derived from a run directory: tables, statistics, warnings. Nothing here is stored; all can be
rebuilt."""
