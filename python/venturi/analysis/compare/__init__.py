"""One run beside another."""
