"""What a system is and what a parameter is: addresses, options, the one list of a cell's parameters."""
