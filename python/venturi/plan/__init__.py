"""From a scenario file to cells."""
