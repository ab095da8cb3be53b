"""Every record that a test leaves on disk, of whatever target and command, is held against the schema.

A module that writes other lines on purpose names the directories in `ODD_RECORDS`: beginnings of the names
that pytest gives them, which are those of the tests.
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


def offences(directory: Path) -> Iterator[str]:
    """What the lines of all runs below a directory break, the first of each file."""
    for path in directory.rglob("trials.jsonl"):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            try:
                error = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(json.loads(line)))
            except ValueError:
                continue  # a torn line; what reads it is tested where it was torn
            if error is not None:
                yield f"{path}:{number}: {error.json_path}: {error.message[:200]}"
                break


@pytest.fixture(scope="module", autouse=True)
def records_follow_the_schema(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    place = tmp_path_factory.getbasetemp()
    before = {path.name for path in place.iterdir()}
    yield
    odd = tuple(getattr(request.module, "ODD_RECORDS", ()))
    fresh = [path for path in place.iterdir() if path.name not in before and not path.name.startswith(odd)]
    # pytest keeps a link to the newest directory of each name.
    found = [
        each for path in sorted(fresh) if path.is_dir() and not path.is_symlink() for each in offences(path)
    ]
    assert not found, "records that break the schema:\n" + "\n".join(found)
