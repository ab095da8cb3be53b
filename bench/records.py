"""Which pages may become records, and how old those are that exist: `make bench-records`.

A record must name a commit that others can check out, and a machine that was idle. Otherwise nobody can
repeat it, so it is refused, unless `--override "reason"` is given, which becomes the record's first line.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "bench" / "README.md"
MOST_LOAD = 0.5
_BRANCHES = ("main", "origin/main")
_MARKS = ("<!-- records: `make bench-records` -->", "<!-- end of records -->")
_COMMIT = re.compile(r"\bcommit ([0-9a-f]{7,40})\b(-dirty)?")
_LOAD = re.compile(r"\bload (?:average )?(?:before )?(?:a run )?(\d+\.\d+)", re.IGNORECASE)


class Refused(Exception):
    """The page does not become a record."""


def git(*words: str) -> str | None:
    """What git prints; None if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def head_commit() -> str:
    """The commit of the measured tree, with `-dirty` behind it if tracked files have changes."""
    changes = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short=8", "HEAD") or "") + ("-dirty" if changes else "")


def on_main(commit: str) -> bool:
    return any(git("merge-base", "--is-ancestor", commit, branch) is not None for branch in _BRANCHES)


def objections(head: Mapping[str, Any], is_on_main: Callable[[str], bool] = on_main) -> list[str]:
    """Why these measurements must not become a record."""
    commit, _, dirty = str(head["commit"]).partition("-")
    found = []
    if dirty:
        found.append("the tree has changes that are not committed")
    if not commit:
        found.append("the commit is unknown")
    elif not is_on_main(commit):
        found.append(f"commit {commit} is not on main")
    if head["load_before"] > MOST_LOAD:
        found.append(f"the load before was {head['load_before']:.2f}, over {MOST_LOAD}")
    return found


def check(
    head: Mapping[str, Any], override: str | None, is_on_main: Callable[[str], bool] = on_main
) -> str | None:
    """Raises Refused if the measurements must not become a record. With an override, returns the line that
    the record begins with."""
    found = objections(head, is_on_main)
    if not found:
        return None
    if not override:
        raise Refused(f'no record: {"; ".join(found)}. Mend that, or add --override "reason"')
    return f"Recorded although {', and '.join(found)}: {override}"


@dataclass(frozen=True)
class Record:
    path: Path
    bench: str
    date: str
    commit: str | None
    dirty: bool
    known: bool
    """Whether the repository has the commit."""
    main: bool
    load: float | None

    @property
    def note(self) -> str:
        """What keeps others from repeating it; does not change with later commits."""
        found = []
        if self.commit is None:
            found.append("names no commit")
        elif not self.measured:
            found.append("its commit does not exist")
        elif not self.main:
            found.append("its commit is not on main")
        if self.dirty:
            found.append("with changes that were not committed")
        if self.load is not None and self.load > MOST_LOAD:
            found.append(f"busy machine (load {self.load:g})")
        return "; ".join(found)

    @property
    def age(self) -> str:
        """Commits on main since then."""
        if not (self.commit and self.main):
            return "unknown"
        counts = (git("rev-list", "--count", f"{self.commit}..{branch}") for branch in _BRANCHES)
        return next(filter(None, counts), "unknown")


def read(path: Path) -> Record:
    text = path.read_text(encoding="utf-8")
    earlier = path.parent.name == "earlier"
    bench, _, stem = path.stem.partition("-") if earlier else (path.parents[1].name, "", path.stem)
    head = "\n".join(text.splitlines()[:12])
    named, load = _COMMIT.search(head), _LOAD.search(head)
    commit, dirty = (named[1], bool(named[2])) if named else (None, False)
    known = commit is not None and git("cat-file", "-e", f"{commit}^{{commit}}") is not None
    main = bool(commit and known and on_main(commit))
    return Record(path, bench, stem[:10], commit, dirty, known, main, float(load[1]) if load else None)


def paths() -> list[Path]:
    return sorted(ROOT.glob("bench/*/results/*.md")) + sorted(ROOT.glob("bench/earlier/*.md"))


def table(records: list[Record], ages: bool) -> list[str]:
    columns = ["bench", "record", "commit", *(["commits ago"] if ages else []), "note"]
    rows = [
        [
            record.bench,
            f"[{record.date}]({record.path.relative_to(README.parent)})",
            record.commit or "-",
            *([record.age] if ages else []),
            record.note,
        ]
        for record in records
    ]
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="renew the table in bench/README.md, without ages"
    )
    options = parser.parse_args()
    records = list(map(read, paths()))
    if options.write:
        before, _, rest = README.read_text(encoding="utf-8").partition(_MARKS[0])
        after = rest.partition(_MARKS[1])[2]
        inside = "\n".join([_MARKS[0], *table(records, ages=False), _MARKS[1]])
        README.write_text(before + inside + after, encoding="utf-8")
    print("\n".join(table(records, ages=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
