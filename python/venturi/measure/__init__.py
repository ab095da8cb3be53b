"""What runs trials: runs, ceilings, checks, searches."""
