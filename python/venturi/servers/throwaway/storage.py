"""What a directory is stored on."""

from __future__ import annotations

from pathlib import Path

__all__ = ["in_memory"]


def in_memory(directory: Path) -> bool:
    """Whether it is memory (tmpfs), where fsync costs nothing; False where the system does not tell."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    place = directory.resolve()
    kinds: dict[Path, str] = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        # Later mounts hide earlier ones; spaces are written as octal.
        kinds[Path(before.split()[4].replace("\\040", " "))] = after.split()[0]
    for parent in (place, *place.parents):
        if parent in kinds:
            return kinds[parent] in ("tmpfs", "ramfs")
    return False
