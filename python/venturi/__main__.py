"""`python -m venturi`, the same as the command `venturi`."""

from venturi.cli import program

program()
