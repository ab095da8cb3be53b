"""The seeded faults: patches that say first what they break, and why `venturi prove` cannot see it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "faults"
UNSEEN = "# not for prove: "


@dataclass(frozen=True)
class Fault:
    path: Path
    says: str
    """What it breaks."""
    unseen: str | None
    """Why `venturi prove` does not see it; None: it should."""
    touched: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def area(self) -> str:
        return self.name.partition("-")[0]

    @property
    def compiled(self) -> bool:
        return any(path.endswith(".rs") for path in self.touched)


def read(path: Path) -> Fault:
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    reason = lines[0].removeprefix(UNSEEN) if lines[0].startswith(UNSEEN) else None
    touched = tuple(line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/"))
    return Fault(path, head.removeprefix("# "), reason, touched)


def everything() -> list[Fault]:
    """By what they touch: two faults of one crate in a row are one build."""
    return sorted(map(read, FOLDER.glob("*.patch")), key=lambda fault: (fault.touched, fault.name))
