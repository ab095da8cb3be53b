"""`venturi serve flight` before h2spec, a conformance suite for servers of HTTP/2 that others wrote."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from conftest import Start, require
from flight_support import Certificates

# Fixtures give the tests another cache directory; what tools/install-servers built is in the user's.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "venturi"

# Asked for `/`, as the suite does unless told otherwise, a gRPC server answers with a status alone, and
# before it has read the request. Its cases that may not pass, each with the reason:
_NO_BODY = "wants a body, and a gRPC server has none for `/`: UNIMPLEMENTED, in headers and trailers"
_ANSWERED = (
    "wants calls that last, and those for `/` are over at once, or when the suite's next ones are there"
)
_LARGER = "takes 20 kB for too large a frame, and this server announces frames of 8 MiB"
_ACCEPTED = {
    "generic/2/2": ("failed", _NO_BODY),
    "generic/2/3": ("failed", _NO_BODY),
    "http2/4.2/3": ("failed", _LARGER),
    "http2/5.1.2/1": ("failed or passed", _ANSWERED),
    "http2/6.5.3/1": ("skipped", _NO_BODY),
    "http2/6.9.1/1": ("skipped", _NO_BODY),
    "http2/6.9.1/3": ("failed or passed", _ANSWERED),
    "http2/6.9.2/1": ("skipped", _NO_BODY),
    "http2/6.9.2/2": ("skipped", _NO_BODY),
    **dict.fromkeys(("http2/8.1.2.6/1", "http2/8.1.2.6/2"), ("failed or passed", _ANSWERED)),
}

# Asked for a call that is answered with data, and with five headers of 16 kB for too large a frame (this
# server takes 64 KiB of headers), all of them pass, the strict ones too.
_LIST = "/arrow.flight.protocol.FlightService/ListActions"
_OF_A_CALL = ("--path", _LIST, "--max-header-length", "16000", "--strict")


def _h2spec() -> Path | None:
    return next(iter(sorted(_CACHE.glob("h2spec-*[0-9]"))), None)


def _outcomes(report: Path) -> dict[str, str]:
    """Of each case, by its section and number in it: passed, failed or skipped."""
    outcomes = {}
    for suite in ElementTree.parse(report).iter("testsuite"):
        for number, case in enumerate(suite.iter("testcase"), 1):
            said = {child.tag for child in case}
            outcome = (
                "failed" if said & {"failure", "error"} else "skipped" if "skipped" in said else "passed"
            )
            outcomes[f"{case.get('package')}/{number}"] = outcome
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "tls", "cases", "accepted"),
    [
        pytest.param((), False, 145, _ACCEPTED, id="as-it-comes"),
        pytest.param(_OF_A_CALL, False, 146, {}, id="a-call"),
        pytest.param(_OF_A_CALL, True, 146, {}, id="a-call-tls"),
    ],
)
def test_every_case_passes_or_has_a_reason(
    start_reference_server: Start,
    certificates: Certificates,
    tmp_path: Path,
    asked: tuple[str, ...],
    tls: bool,
    cases: int,
    accepted: dict[str, tuple[str, str]],
) -> None:
    suite = _h2spec()
    require(suite, "h2spec (tools/install-servers)")
    served = ("--tls-certificate", certificates.server, "--tls-key", certificates.server_key) if tls else ()
    port = str(start_reference_server(*served).port)
    report = tmp_path / "report.xml"
    # Seconds until nothing is taken for no answer: a busy machine may be late.
    options = ["--port", port, "--timeout", "5", "--junit-report", str(report)]
    options += ["--tls", "--insecure"] if tls else []
    said = subprocess.run([str(suite), *options, *asked], capture_output=True, text=True, timeout=900)
    assert report.exists(), said.stdout + said.stderr
    outcomes = _outcomes(report)
    assert len(outcomes) == cases and accepted.keys() <= outcomes.keys(), said.stdout
    may = {name: outcome.split(" or ") for name, (outcome, _) in accepted.items()}
    amiss = {name: outcome for name, outcome in outcomes.items() if outcome not in may.get(name, ["passed"])}
    assert not amiss, said.stdout[said.stdout.find("Failures:") :]
