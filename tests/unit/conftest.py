"""Facts do not wait for what this machine can tell: each run finds the self-test passed already."""

from support.proven import proven_instrument as proven_instrument  # a fixture of all
