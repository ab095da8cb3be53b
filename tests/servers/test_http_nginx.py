"""Arrow over HTTP from nginx: what it packs, whom it lets in, where it sends on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.adbc import run
from support.http import nginx_server, rows, stream


def trial(out: Path, url: str, *words: object) -> dict[str, Any]:
    (found,) = run(out, url, "--streams", 1, *words)
    return found


def fails(out: Path, url: str, *words: object) -> str:
    """What a trial that fails says."""
    return str(trial(out, url, *words)["error"]["message"])


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("files")
    (folder / "rows.arrows").write_bytes(stream(rows(10_000)))
    with nginx_server(folder, tmp_path_factory.mktemp("nginx")) as url:
        yield url


def test_another_server_packs_what_is_asked_for_so(tmp_path: Path, stranger: str) -> None:
    plain = trial(tmp_path / "plain", f"{stranger}/rows.arrows")
    assert plain["counts"]["rows"] == 10_000 and plain["target"]["software"].startswith("nginx")
    assert "unpack" not in plain["stages"]["client"]
    packed = trial(tmp_path / "packed", f"{stranger}/rows.arrows", "--http-compression", "gzip")
    assert packed["counts"]["rows"] == 10_000 and packed["stages"]["client"]["unpack"] > 0
    assert packed["counts"]["wire_bytes"] < plain["counts"]["wire_bytes"] / 2
    said = fails(tmp_path / "zstd", f"{stranger}/rows.arrows", "--http-compression", "zstd")
    assert "does not compress its answer with zstd" in said


def test_a_password_comes_from_the_environment(
    tmp_path: Path, stranger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = fails(tmp_path / "none", f"{stranger}/user/rows.arrows")
    assert "HTTP 401" in said and "password_env" in said
    monkeypatch.setenv("HTTP_TEST_PASSWORD", "open sesame")
    words = ("--user", "me", "--password-env", "HTTP_TEST_PASSWORD")
    found = trial(tmp_path / "some", f"{stranger}/user/rows.arrows", *words)
    assert found["counts"]["rows"] == 10_000
    kept = "".join(path.read_text() for path in (tmp_path / "some").glob("*.json*"))
    assert "sesame" not in kept and "bWU6" not in kept


def test_a_redirect_is_named_and_not_followed(tmp_path: Path, stranger: str) -> None:
    said = fails(tmp_path / "run", f"{stranger}/away")
    assert "/rows.arrows; name that place" in said, said
