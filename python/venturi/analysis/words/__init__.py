"""Sentences and labels."""
