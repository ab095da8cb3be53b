"""Addresses with Unix sockets in the place of a host: what they mean, and what is none."""

from __future__ import annotations

import pytest

from venturi.common import toml_text
from venturi.plan import matrix
from venturi.plan.layers import Layer
from venturi.plan.load import load
from venturi.targets.system import is_unix
from venturi.targets.urls import check_url, each_host, is_loopback, place_of, split_url


@pytest.mark.parametrize(
    ("url", "place", "asked", "query"),
    [
        ("flight+unix:///run/s", "/run/s", "", ""),
        ("flight+unix:///run/s:/a/b", "/run/s", "/a/b", ""),
        ("flight+unix:///run/s?command=a:/b?c", "/run/s", "", "command=a:/b?c"),
        ("flight+unix:///a%20b,/c:/t", "/a b,/c", "/t", ""),
        ("charrow+unix:///run/s:/db?query=SELECT%201", "/run/s", "/db", "query=SELECT%201"),
        ("postgres+unix://me@/var/run/postgresql:/sales", "/var/run/postgresql", "/sales", ""),
        ("mysql+unix:///run/mysqld/mysqld.sock", "/run/mysqld/mysqld.sock", "", ""),
        ("mysql+unix://local:/sales", "local", "/sales", ""),
    ],
)
def test_addresses(url: str, place: str, asked: str, query: str) -> None:
    assert check_url(url) == url and is_unix(url) and is_loopback(url)
    parts = split_url(url)
    assert (place_of(url), parts.path, parts.query) == (place, asked, query)
    assert parts.geturl() == url
    # What stands behind the socket goes, and the rest is an address.
    alone = parts._replace(path="", query="").geturl()
    assert check_url(alone) == alone and place_of(alone) == place


def test_addresses_of_several_and_of_our_own() -> None:
    assert each_host("flight+unix:///a,/b:/t") == ["flight+unix:///a:/t", "flight+unix:///b:/t"]
    assert check_url("flight+unix://local/t") == "flight+unix://local:/t"
    assert check_url("flight+unix:///run/s:") == "flight+unix:///run/s"
    assert not is_unix("flight://local")


def test_the_two_ways_to_one_system_are_two_places() -> None:
    text = 'name = "x"\n[matrix]\ntarget = ["flight://local", "flight+unix://local"]\n'
    cells = matrix.cells(load([Layer("x.toml", toml_text.parse(text, "x.toml"), text)]))
    assert [cell.parameters["place"] for cell in cells] == ["flight://local", "flight+unix://local"]
