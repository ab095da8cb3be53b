"""Compiles the C++ peers against the Arrow C++ that lies in the pyarrow wheel.

Any environment with pyarrow and a C++20 compiler will do: `python -m bench.flight.build`.
The wheel carries headers and versioned libraries (`libarrow.so.2600`) but not the plain
names a linker looks for, so links to them stand beside the programs, which look nowhere
else (`$ORIGIN`): another environment with the same pyarrow only moves the links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = ("peer_server", "peer_client")


def target_directory() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "bench-flight"


def library_directory() -> Path:
    for directory in map(Path, pyarrow.get_library_dirs()):
        if list(directory.glob("libarrow_flight.so.*")):
            return directory
    raise SystemExit("error: no libarrow_flight.so in this pyarrow; its Linux wheels from PyPI have one")


def link(build: Path, wheel: Path, name: str) -> None:
    """`libNAME.so` for the linker; for the loader the soname, `libNAME.so.2600`, the shortest such name."""
    library = min(wheel.glob(f"lib{name}.so.*"), key=lambda path: len(path.name))
    for place in (build / f"lib{name}.so", build / library.name):
        place.unlink(missing_ok=True)
        place.symlink_to(library)


def build(quiet: bool = False) -> dict[str, Path]:
    """The peers' paths by name; compiles those older than their sources or pyarrow."""
    directory = target_directory() / f"arrow-{pyarrow.__version__}"
    directory.mkdir(parents=True, exist_ok=True)
    wheel = library_directory()
    for name in ("arrow", "arrow_flight"):
        link(directory, wheel, name)
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("error: no C++ compiler found; install g++ or set CXX")
    newest = max(p.stat().st_mtime for p in [*HERE.glob("*.cc"), *HERE.glob("*.h"), Path(__file__)])
    peers = {}
    for name in PEERS:
        program = peers[name] = directory / name
        if program.exists() and program.stat().st_mtime > newest:
            continue
        command = [
            compiler, "-std=c++20", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-pthread",
            "-isystem", pyarrow.get_include(),
            str(HERE / f"{name}.cc"), "-o", str(program),
            f"-L{directory}", "-larrow_flight", "-larrow", "-Wl,-rpath,$ORIGIN",
        ]  # fmt: skip
        if not quiet:
            print(" ".join(command), file=sys.stderr)
        subprocess.run(command, check=True)
    return peers


if __name__ == "__main__":
    for path in build().values():
        print(path)
