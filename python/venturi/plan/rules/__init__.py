"""What a cell may ask for, by families of systems; the names of systems are those of `venturi.targets`."""
