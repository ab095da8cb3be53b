"""The laboratory without any: addresses of its hosts, programs that are not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.run import venturi
from venturi.lab.hosts import Hosts, address


def test_every_host_has_an_address_of_its_own() -> None:
    hosts = Hosts(600)
    addresses = [address(end) for end in hosts.ends]
    assert len(set(addresses)) == len(hosts.ends) == 601
    assert all(0 < int(part) < 255 for it in addresses for part in it.split(".")[2:] if it[6:8] != "0.")
    assert hosts.middle == ("trunk-s", "toward-s") and Hosts().middle == ("toward-c", "toward-s")
    assert max(map(len, hosts.ports)) <= 15, "an interface's name"


def test_a_program_that_is_needed_and_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = venturi("links", "100mbit")
    assert done.returncode == 4
    assert "--link needs the program unshare, which is not here" in done.stderr
    assert "hint: Debian's package util-linux has it" in done.stderr
