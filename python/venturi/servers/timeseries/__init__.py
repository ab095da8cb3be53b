"""Queries of a time-series store by Arrow Flight."""
