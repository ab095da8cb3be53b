"""Databases that speak TLS: gets and upserts against real servers, and certificates that are not trusted.

Their accounts have passwords. PostgreSQL binds the log-in to the certificate (SCRAM-SHA-256-PLUS):
it refuses one with a wrong hash.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.core import run_trial
from support.database import Database
from support.flight import Certificates
from support.read import RECORDS, get, good, refused

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]

SETTINGS = {
    "postgres": {"ssl": "on", "ssl_cert_file": "{folder}/server.pem", "ssl_key_file": "{folder}/server.key"},
    "mariadb": {"ssl_cert": "{folder}/server.pem", "ssl_key": "{folder}/server.key"},
}

PASSWORD = "VENTURI_TEST_TLS_PASSWORD"


@pytest.fixture(params=SETTINGS)
def database(
    request: pytest.FixtureRequest,
    start_database: Callable[..., Database],
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Database]:
    """Its certificate and key lie where the account that it runs as may read them."""
    from venturi.servers import throwaway
    from venturi.servers.throwaway import accounts

    name: str = request.param
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    owner = accounts.owner_for(throwaway.named(name)().account)
    for file in (certificates.server, certificates.server_key):
        copied = Path(shutil.copy(file, folder))
        copied.chmod(0o600)
        if owner is not None:
            shutil.chown(copied, *owner)
    settings = {key: value.format(folder=folder) for key, value in SETTINGS[name].items()}
    monkeypatch.setenv(PASSWORD, "geheim")
    yield start_database(name, settings=settings, password_env=PASSWORD)
    shutil.rmtree(folder)


def test_rows_come_and_go_by_tls(database: Database, certificates: Certificates) -> None:
    url = database.url.replace("://", "+tls://")
    trusted: dict[str, Any] = {"tls_ca": str(certificates.ca), "password_env": PASSWORD}
    good(get(url, data=RECORDS, streams=2, rows=20_000, **trusted), 40_000, "checksum")
    rows = get(url, query="SELECT 7 AS seven", **trusted)
    assert good(rows, 1)["target"]["protocol"]
    assert run_trial(url, rows=1000, options=trusted)["error"] is None


def test_who_is_not_trusted_is_refused(database: Database, certificates: Certificates) -> None:
    url = database.url.replace("://", "+tls://")
    refused(get(url, query="SELECT 1 AS one", tls_ca=str(certificates.other_ca)), "tls", "TLS")
    refused(get(url, query="SELECT 1 AS one"), "tls", "TLS")
    good(get(url, query="SELECT 1 AS one", tls_insecure=True, password_env=PASSWORD), 1)
