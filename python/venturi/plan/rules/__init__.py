"""What a cell may ask for: a file a system, by the names that these have in `venturi.targets`."""
