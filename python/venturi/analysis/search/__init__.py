"""The best cell, and where to look for a better one."""
