"""Venturi beside its peers, and its own judgements put to the test: `make bench-NAME`, see README.md here.

Each bench is `python -m bench.NAME.run`, from the root of the repository.
"""

import sys
from pathlib import Path
from typing import Any

# What the tests share (tests/support) serves the benches too. Nothing in tests/ imports from here.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

Line = dict[str, Any]
"""One line of a file of measurements, or what a client process is asked for."""
