"""postgres:// and who may come in: TLS, passwords, too many connections; against a real PostgreSQL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Certificates
from core_support import run_trial
from database_support import Database

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]
Start = Callable[..., Database]


def line(url: str, **choices: Any) -> str:
    message: str = run_trial(url, rows=100, **choices)["error"]["message"]
    return message


def with_tls(database: Database) -> str:
    return database.url.replace("postgres://", "postgres+tls://")


@pytest.fixture
def tls_server(start_database: Start, certificates: Certificates, open_directory: Path) -> Database:
    place = open_directory.parent
    for name, source in (("certificate", certificates.server), ("key", certificates.server_key)):
        copied = shutil.copy(source, place / f"{name}.pem")
        os.chmod(copied, 0o600)  # it refuses a key that others may read
        if os.geteuid() == 0:
            shutil.chown(copied, "postgres")
    settings = {
        "ssl": "on",
        "ssl_cert_file": str(place / "certificate.pem"),
        "ssl_key_file": str(place / "key.pem"),
    }
    return start_database("postgres", settings=settings)


def test_tls(tls_server: Database, certificates: Certificates) -> None:
    url = with_tls(tls_server)
    known = {"tls_ca": str(certificates.ca), "tls_server_name": "localhost"}
    for options in (known, {"tls_insecure": True}, {**known, "method": "copy"}):
        record = run_trial(url, rows=1000, options={"table": "venturi_tls", **options})
        assert record["outcome"] == "ok", record["error"]
        assert record["verification"]["achieved"] == "sums"
    assert "TLS" in line(url) and "as tls_ca" in line(url)


def test_without_tls_it_says_so(postgres: Database) -> None:
    assert "without TLS the URL begins with postgres://" in line(with_tls(postgres))


def test_passwords(start_database: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENTURI_TEST_RIGHT", "correct horse")
    monkeypatch.setenv("VENTURI_TEST_WRONG", "hunter2-hunter2")
    database = start_database("postgres", password_env="VENTURI_TEST_RIGHT")
    record = run_trial(database.url, rows=1000, options={"password_env": "VENTURI_TEST_RIGHT"})
    assert record["outcome"] == "ok", record["error"]
    wrong = line(database.url, options={"password_env": "VENTURI_TEST_WRONG"})
    assert "(28P01)" in wrong and "hunter2" not in wrong
    assert "--password-env" in line(database.url)
    assert "VENTURI_TEST_UNSET" in line(database.url, options={"password_env": "VENTURI_TEST_UNSET"})


def test_too_many_connections(start_database: Start) -> None:
    settings = {"max_connections": "8", "superuser_reserved_connections": "3"}
    database = start_database("postgres", settings=settings)
    assert run_trial(database.url, rows=1000, streams=2)["outcome"] == "ok"
    refused = line(database.url, streams=9)
    assert "53300" in refused and "max_connections" in refused and "--streams" in refused
