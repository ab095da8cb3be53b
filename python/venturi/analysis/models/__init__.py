"""Laws fitted to cells, and what they predict."""
