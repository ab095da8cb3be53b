"""Laws fitted to cells, and what they foretell."""
