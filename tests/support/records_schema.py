"""The records that runs of tests leave on disk, of any target and command, are held against the schema.

Runs that tests write themselves are left out: they leave fields out, or fill them wrongly, on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

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


Shape = str | tuple[tuple[str, "Shape"], ...] | frozenset["Shape"]
_VALID: set[Shape] = set()
"""The shapes of fields that follow the schema: what each may be depends on the outcome, and on whether it was
imported, alone."""


def shape(value: Any, name: str = "") -> Shape:
    """The kind of a line: its fields, their types, the signs of numbers, and the words of which the schema
    lists the choices. Lines of one shape differ in numbers and names."""
    if isinstance(value, dict):
        return tuple((key, shape(each, key)) for key, each in sorted(value.items()))
    if isinstance(value, list):
        return frozenset(shape(each, name) for each in value)
    if isinstance(value, str) and name in _CHOICES:
        return value
    if isinstance(value, int | float):
        return f"{type(value).__name__} {(value > 0) - (value < 0)}"
    return type(value).__name__


def _chosen(schema: Any) -> Iterator[str]:
    """The fields of which the schema lists the choices."""
    if isinstance(schema, dict):
        for name, each in (schema.get("properties") or {}).items():
            if "enum" in json.dumps(each) or "const" in json.dumps(each):
                yield name
        for each in schema.values():
            yield from _chosen(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _chosen(each)


_CHOICES = {*_chosen(VALIDATOR.schema)}


def offences(directory: Path) -> Iterator[str]:
    """What the lines of all runs below a directory break, the first of each file. A line is held against the
    schema that has a field of a new shape."""
    for path in directory.rglob("trials.jsonl"):
        if not measured(path.parent):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            try:
                record = json.loads(line)
            except ValueError:
                continue  # a torn line; what reads it is tested where it was torn
            among = (str(record.get("outcome")), str("imported" in record))
            kinds = {*((*among, each) for each in shape(record)), (*among, *sorted(record))}
            if kinds <= _VALID:
                continue
            error = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(record))
            if error is None:
                _VALID.update(kinds)
            else:
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
