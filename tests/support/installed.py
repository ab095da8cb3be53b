"""Programs of others: those of this machine, and those that tools/install-servers brought. Without pytest,
which benches do not need."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Fixtures give the tests another cache directory; what tools/install-servers brought is in the user's.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "venturi"
DEBIAN = CACHE / "debian"


def program(*names: str) -> str | None:
    """The first of these that is in PATH, in /usr/sbin, or in an unpacked package."""
    places = [os.environ["PATH"], "/usr/sbin", *(str(DEBIAN / "usr" / kind) for kind in ("sbin", "bin"))]
    return next(filter(None, (shutil.which(name, path=os.pathsep.join(places)) for name in names)), None)


def unpacked_libraries() -> str:
    """Where the libraries of unpacked packages are, as LD_LIBRARY_PATH has it."""
    folders = (lib for root in ("usr/lib", "lib") for lib in (DEBIAN / root).glob("*-linux-gnu*"))
    return os.pathsep.join(map(str, folders))
