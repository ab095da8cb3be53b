"""Why a cell is as slow as it is, and what would make it faster."""
