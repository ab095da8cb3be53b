"""Every record that a run of a test leaves on disk, of any target and command, is held against the schema.

Runs that tests write themselves are left out: they leave fields out, or fill them wrongly, on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())
)


def measured(run: Path) -> bool:
    """Whether Venturi has run here, and looked at the machine."""
    try:
        environment = json.loads((run / "environment.json").read_text())
        return bool(environment["client"]["boot_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def offences(directory: Path) -> Iterator[str]:
    """What the lines of all runs below a directory break, the first of each file."""
    for path in directory.rglob("trials.jsonl"):
        if not measured(path.parent):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            try:
                error = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(json.loads(line)))
            except ValueError:
                continue  # a torn line; what reads it is tested where it was torn
            if error is not None:
                yield f"{path}:{number}: {error.json_path}: {error.message[:200]}"
                break


@pytest.fixture(scope="module", autouse=True)
def records_follow_the_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    place = tmp_path_factory.getbasetemp()
    before = {path.name for path in place.iterdir()}
    yield
    fresh = [path for path in place.iterdir() if path.name not in before]
    # pytest keeps a link to the newest directory of each name.
    found = [
        each for path in sorted(fresh) if path.is_dir() and not path.is_symlink() for each in offences(path)
    ]
    assert not found, "records that break the schema:\n" + "\n".join(found)
