"""Trials over links: the client runs in one namespace, servers of ours in another."""

from __future__ import annotations

import json
from typing import Any

from venturi.common import links
from venturi.engine import apart
from venturi.engine.executor import CoreExecutor, TrialControl
from venturi.engine.spec import failed_record
from venturi.lab.laboratory import Laboratory, WrongLink
from venturi.lab.shape import ADDRESSES
from venturi.servers.starters import Placed

__all__ = ["LinkExecutor"]


class LinkExecutor:
    """Runs each trial at the client's end of the link that its spec names; close it."""

    needs_server = True
    measures = True

    def __init__(self) -> None:
        """Raises VenturiError where this host has no network namespaces for us."""
        self._here = CoreExecutor()
        self._lab = Laboratory()
        self.starter = Placed(ADDRESSES["server"], self._lab.within("server"))

    def control(self) -> TrialControl:
        return self._here.control()

    def run_trial(self, spec: str, control: TrialControl) -> str:
        document = json.loads(spec)
        text = str(document["link"])
        try:
            found = self._made(document)
            before = self._lab.overrun()
        except (WrongLink, OSError) as error:
            return json.dumps(failed_record("link", str(error)))
        assert isinstance(control, apart.Handle)
        within = self._lab.within("client")
        with self._lab.watched(control.cancel):
            record = json.loads(apart.run(json.dumps(document), control, within=within))
        record["link"] = {"asked": text, **found}
        try:
            overrun = self._lab.overrun() - before
        except OSError as error:
            return json.dumps(record | failed_record("link", str(error)))
        if overrun and record.get("outcome") == "ok":
            said = f"this machine cannot keep up with {text}: {overrun:,} frames were lost that should not"
            record["outcome"], record["error"] = "failed", {"kind": "link", "message": said, "stream": None}
        return json.dumps(record)

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        document = json.loads(spec)
        try:
            self._made(document)
        except (WrongLink, OSError) as error:
            return json.dumps(
                {"outcome": "failed", "error": {"kind": "link", "message": str(error), "stream": None}}
            )
        assert isinstance(control, apart.Handle)
        within = self._lab.within("client")
        return apart.run(json.dumps(document), control, within=within, call="probe_tcp")

    def _made(self, document: dict[str, Any]) -> dict[str, Any]:
        """Makes the link that a spec asks for, takes that out of it, and says what was measured of it."""
        return self._lab.ready(links.parse(document.pop("link")), document.pop("cross", None))

    def probe(self, spec: str, control: TrialControl) -> str:
        return self._here.probe(spec, control)

    def close(self) -> None:
        self._lab.close()
