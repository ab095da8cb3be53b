"""Records of trials summed up cell by cell."""
