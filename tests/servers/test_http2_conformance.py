"""`venturi serve flight` before h2spec, a conformance suite for servers of HTTP/2 that others wrote."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from support.flight import served
from support.installed import CACHE
from support.needs import require

# Asked for `/`, as the suite does unless told otherwise, a gRPC server answers with a status alone, and
# before it has read the request, whose rest a reset declines. A case whose call was over so when its next
# frame came is `answered`: it says nothing then, and has to pass where a call lasts (below).
_WHOLE_ANSWER = re.compile(
    r"(HEADERS Frame \(length:\d+, flags:0x05|RST_STREAM Frame \(length:4, flags:0x00), stream_id:\d+\)\Z"
)
_AS_IT_COMES = dict.fromkeys(("http2/6.5.3/1", "http2/6.9.1/1", "http2/6.9.2/1", "http2/6.9.2/2"), "skipped")
"""They want a body, and a gRPC server has none for `/`: UNIMPLEMENTED, in headers and trailers."""

# Asked for a call that is answered with data, and with five headers of 16 kB for too large a frame (this
# server takes 64 KiB of headers), all of them pass, the strict ones too.
_LIST = "/arrow.flight.protocol.FlightService/ListActions"
_OF_A_CALL = ("--path", _LIST, "--max-header-length", "16000", "--strict")


def _h2spec() -> Path | None:
    return next(iter(sorted(CACHE.glob("h2spec-*[0-9]"))), None)


def _outcomes(report: Path) -> dict[str, str]:
    """Of each case, by its section and number in it: passed, answered, failed or skipped."""
    outcomes = {}
    # It writes what it got as it came: the eight bytes of a PING may be no text.
    text = re.sub(rb"[\x00-\x08]", b"?", report.read_bytes())
    for suite in ElementTree.fromstring(text).iter("testsuite"):
        for number, case in enumerate(suite.iter("testcase"), 1):
            said = {child.tag: child.text or "" for child in case}
            wrong = said.get("failure", said.get("error"))
            outcome = "passed" if wrong is None else "failed"
            if wrong is not None and _WHOLE_ANSWER.search(wrong):
                outcome = "answered"  # the last frame that the suite saw, behind those it wanted
            outcomes[f"{case.get('package')}/{number}"] = "skipped" if "skipped" in said else outcome
    return outcomes


@pytest.mark.parametrize(
    ("asked", "cases", "accepted"),
    [pytest.param((), 145, _AS_IT_COMES, id="as-it-comes"), pytest.param(_OF_A_CALL, 146, {}, id="a-call")],
)
def test_every_case_passes_or_has_a_reason(
    core: object, tmp_path: Path, asked: tuple[str, ...], cases: int, accepted: dict[str, str]
) -> None:
    suite = _h2spec()
    require(suite, "h2spec (tools/install-servers)")
    report = tmp_path / "report.xml"
    with served("flight") as address:
        # Seconds until nothing is taken for no answer: a busy machine may be late.
        options = ["--port", address.rpartition(":")[2], "--timeout", "5", "--junit-report", str(report)]
        said = subprocess.run([str(suite), *options, *asked], capture_output=True, text=True)
    assert report.exists(), said.stdout + said.stderr
    outcomes = _outcomes(report)
    assert len(outcomes) == cases and accepted.keys() <= outcomes.keys(), said.stdout
    usual = ("passed",) if asked else ("passed", "answered")
    amiss = {
        name: outcome
        for name, outcome in outcomes.items()
        if outcome not in ((accepted[name],) if name in accepted else usual)
    }
    assert not amiss, said.stdout[said.stdout.find("Failures:") :]
