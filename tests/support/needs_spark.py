"""Whoever imports this before what imports Spark is skipped where there is none, or fails (`require`)."""

from __future__ import annotations

from importlib.util import find_spec

from support.needs import require

require(find_spec("pyspark"), "pyspark (venturi[spark])")
