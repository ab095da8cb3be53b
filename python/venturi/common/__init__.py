"""What everything else stands on: errors, units, times, conditions, temporary files, the environment."""
