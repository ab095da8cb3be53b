"""Venturi measures how fast data really moves."""
