"""Data to move: files, points, archives."""
