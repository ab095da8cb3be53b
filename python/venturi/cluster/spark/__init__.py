"""Spark as a place to run trials."""
