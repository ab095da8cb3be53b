"""Figures drawn by plotly and by matplotlib."""
