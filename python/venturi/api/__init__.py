"""The Python API. What users need of it is in `venturi`."""
