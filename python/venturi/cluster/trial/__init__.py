"""One trial on many hosts."""
