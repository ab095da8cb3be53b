"""ADBC drivers that Python packages of this environment bring. None of them is imported."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from venturi.common.errors import ScenarioError
from venturi.servers.local import duckdb_library


def found(url: str) -> dict[str, str]:
    """Options of the spec for a driver that a package has: its `library`, and its `driver_entrypoint` where
    that has a name of its own. Empty: the URL names a file, or the core looks for a driver of that name."""
    name = urlsplit(url).netloc
    if name == "duckdb":
        with contextlib.suppress(ScenarioError):
            return {"library": duckdb_library(), "driver_entrypoint": "duckdb_adbc_init"}
        return {}
    library = _library(name)
    return {} if library is None else {"library": str(library)}


def _library(name: str) -> Path | None:
    """That of the package adbc-driver-NAME; it has this ending on every system."""
    if not name:
        return None
    with contextlib.suppress(ImportError, ValueError):
        package = find_spec(f"adbc_driver_{name.replace('-', '_')}")
        for folder in (package.submodule_search_locations or ()) if package is not None else ():
            library = Path(folder) / f"libadbc_driver_{name}.so"
            if library.is_file():
                return library
    return None
