"""What the package says of itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata

import venturi
from support.run import ROOT

CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())
VERSION = CARGO["workspace"]["package"]["version"]


def test_one_version_everywhere() -> None:
    assert venturi.__version__ == metadata.version("venturi") == VERSION
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(VERSION)} - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_a_release_names_its_repository_and_refuses_another_version() -> None:
    def release(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tools" / "release"), "--print", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = release(f"v{VERSION}", "https://example.org/venturi")
    urls = tomllib.loads(done.stdout)["project"]["urls"]
    assert urls["Repository"] == "https://example.org/venturi"
    assert urls["Changelog"] == f"https://example.org/venturi/blob/v{VERSION}/CHANGELOG.md"
    refused = release("v9.9.9", "https://example.org/venturi")
    assert refused.returncode == 2
    assert refused.stderr == f"error: the tag is v9.9.9, Cargo.toml says {VERSION}; set one of them right\n"
