"""Trials over links: clients run in namespaces, servers of ours in another."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from typing import Any

from venturi.cluster.trial import lineup, probing
from venturi.cluster.trial.clock import ONE_MACHINE
from venturi.cluster.trial.handle import ClusterControl
from venturi.common import links
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine import subprocess_executor
from venturi.engine.executor import CoreExecutor, TrialControl
from venturi.engine.loader import LoaderProcess
from venturi.engine.spec import failed_record
from venturi.lab.hosts import CLIENT, SERVER, address
from venturi.lab.laboratory import Laboratory, Stopped, WrongLink
from venturi.lab.programs import Halt, Note, Serving
from venturi.servers.starters import Placed

__all__ = ["LinkExecutor", "LoadersExecutor"]

_BEGIN_SECONDS = 30.0


def _by_its_ends(link: links.Link, direction: str) -> bool:
    """Whether its ends, both on this machine, may be what limits raw TCP: then it matters which CPUs they
    have. Over other links the probe's time goes into filling the link."""
    rate = link.of(direction)
    return not link.round_trip_ns and (rate is None or rate >= links.FAST)


class _Ends(Placed):
    """Starts servers at the end of a link."""

    def __init__(self, lab: Laboratory, beside: bool) -> None:
        near = Placed(address(CLIENT), lab.within(CLIENT)) if beside else None
        super().__init__(address(SERVER), lab.within(SERVER), near)
        self._lab = lab

    def program(self, command: str, ports: Iterable[int], note: Note, halt: Halt) -> Serving:
        return Serving(self._lab, command, note, ports, halt)


class _OverLinks:
    """Makes the links that specs ask for, and runs what they ask for over them; close it. A spec without a
    link is of a server beside the client.

    Raises VenturiError where this host has no network namespaces for us.
    """

    needs_server = True
    measures = True

    def __init__(self, beside: bool, loaders: int = 1) -> None:
        """`beside`: `X://local` is beside the client, and the link leads to `X://remote`; else to both."""
        self._here = CoreExecutor()
        self._lab = Laboratory(loaders)
        self.starter = _Ends(self._lab, beside)

    @abstractmethod
    def control(self) -> TrialControl:
        """A fresh handle, good for one trial."""

    @abstractmethod
    def _trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        """The record of a trial at the client's end, as things are."""

    @abstractmethod
    def _probe(self, document: dict[str, Any], link: links.Link | None, control: TrialControl) -> str:
        """Raw TCP from the client's end, as things are: over this link, or to a server beside it."""

    def run_trial(self, spec: str, control: TrialControl) -> dict[str, Any]:
        document = json.loads(spec)
        if (asked := document.get("link")) is None:
            self._lab.rest()
            return self._trial(spec, control)
        try:
            found = self._made(document, control)
        except Stopped:
            return failed_record("cancelled", "stopped while its link was made", "interrupted")
        except WrongLink as wrong:
            seen = {"asked": links.parse(asked).text, **wrong.found}
            return failed_record("link", str(wrong)) | {"link": seen}
        except OSError as error:
            return failed_record("link", str(error))
        record: dict[str, Any] = {}
        gone = threading.Event()

        def lost() -> None:
            gone.set()
            control.cancel()

        try:
            with self._lab.held(lost):
                record = self._trial(json.dumps(document | {"helpers": self._lab.helpers}), control)
        except OSError as error:
            # Another reason why the trial failed is the first one.
            ended = gone.is_set() or not self._lab.running
            if ended or record.get("outcome") in (None, "ok"):
                record |= {"outcome": "failed", "error": failed_record("link", str(error))["error"]}
        return record | {"link": found}

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        document = json.loads(spec)
        if (asked := document.get("link")) is None:
            self._lab.rest()
            return self._probe(document, None, control)
        try:
            self._made(document, control)
            with self._lab.held(control.cancel):
                return self._probe(document, links.parse(asked), control)
        except (Stopped, WrongLink, OSError) as error:
            failure = {"kind": "link", "message": str(error) or "stopped", "stream": None}
            return json.dumps({"outcome": "failed", "error": failure})

    def _made(self, document: dict[str, Any], control: TrialControl) -> dict[str, Any]:
        """Makes the link that a spec asks for, takes that out of it, and says what was measured of it."""
        assert isinstance(control, subprocess_executor.Handle | ClusterControl)
        link, backplane = links.parse(document.pop("link")), document.pop("backplane", None)
        shared = links.rates(backplane) if backplane is not None else None
        found = self._lab.ready(link, document.pop("cross", None), shared, lambda: control.cancelled)
        return {"asked": link.text, **found}

    def probe(self, spec: str, control: TrialControl) -> str:
        return self._here.probe(spec, self._here.control())

    def close(self) -> None:
        self._lab.close()


class LinkExecutor(_OverLinks):
    """One client runs all streams of a trial."""

    def control(self) -> TrialControl:
        return self._here.control()

    def _trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        assert isinstance(control, subprocess_executor.Handle)
        return dict(json.loads(subprocess_executor.run(text, control, self._lab.within(CLIENT))))

    def _probe(self, document: dict[str, Any], link: links.Link | None, control: TrialControl) -> str:
        assert isinstance(control, subprocess_executor.Handle)
        text = json.dumps(document | {"near": link is None or _by_its_ends(link, document["direction"])})
        return subprocess_executor.run(text, control, self._lab.within(CLIENT), "probe_tcp")


class LoadersExecutor(_OverLinks):
    """Loaders share the streams of a trial, each at the end of a link of its own."""

    def __init__(self, beside: bool, loaders: int) -> None:
        super().__init__(beside, loaders)
        self._loaders: list[LoaderProcess] = []
        try:
            self._ready(loaders)
        except BaseException:
            self.close()
            raise

    def control(self) -> TrialControl:
        return ClusterControl()

    def environments(self) -> dict[str, dict[str, Any]]:
        """What each loader's host and software are, by its name."""
        return {loader.name: dict(loader.identity["environment"]) for loader in self._loaders}

    def _trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        def clocks(handles: Sequence[Any]) -> list[Any]:
            return [ONE_MACHINE.at(time.time_ns()) for _ in handles]

        def ready(count: int, _: Mapping[str, Any]) -> list[LoaderProcess]:
            return self._ready(count)

        return lineup.placed(text, control, ready, clocks)

    def _probe(self, document: dict[str, Any], link: links.Link | None, control: TrialControl) -> str:
        return probing.probe_tcp(json.dumps(document), self._chosen, control)

    def _chosen(self, wanted: int | str) -> list[LoaderProcess]:
        if isinstance(wanted, int):
            return self._ready(wanted)
        return [it for it in self._ready(len(self._lab.hosts.clients)) if it.name == wanted]

    def _ready(self, count: int) -> list[LoaderProcess]:
        """So many; one that has ended is replaced. Raises VenturiError."""
        for at, client in enumerate(self._lab.hosts.clients[:count]):
            if at < len(self._loaders) and self._loaders[at].running and self._loaders[at].identity:
                continue
            for ended in self._loaders[at : at + 1]:
                ended.close()
            made = LoaderProcess(f"loader-{at + 1}", address(client), self._lab.within(client))
            self._loaders[at : at + 1] = [made]
        calls = {loader: loader.call("identify") for loader in self._loaders[:count] if not loader.identity}
        wait(calls.values(), _BEGIN_SECONDS)
        for loader, call in calls.items():
            if not call.done() or call.exception() is not None:
                why = call.exception() if call.done() else f"no answer in {_BEGIN_SECONDS:.0f} s"
                raise VenturiError(f"{loader.name} does not start: {why}", ExitCode.UNREACHABLE)
            loader.identity = dict(call.result())
        return self._loaders[:count]

    def close(self) -> None:
        with contextlib.ExitStack() as ends:
            ends.callback(super().close)
            for loader in self._loaders:
                ends.callback(loader.close)
