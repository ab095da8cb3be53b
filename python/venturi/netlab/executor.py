"""Trials over links: clients run in namespaces, servers of ours in another."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from venturi.cluster.trial.clock import ONE_MACHINE
from venturi.cluster.trial.loaders import ClusterControl
from venturi.cluster.trial.loaders_executor import LoadersExecutor, identify
from venturi.common import links
from venturi.common.texts import Note
from venturi.engine import executor
from venturi.engine.executor import CoreExecutor, Executor, TrialControl
from venturi.engine.loader import LoaderProcess
from venturi.engine.spec import failed_record
from venturi.netlab.laboratory import Laboratory, Stopped, WrongLink
from venturi.netlab.network import CLIENT, SERVER, address
from venturi.netlab.programs import Halt, Serving
from venturi.servers.reference import Placed

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


class LinkExecutor(Executor):
    """Makes the links that specs ask for, and runs what they ask for over them; close it. A spec without a
    link is of a server beside the client. Raises VenturiError if this host has no network namespaces for
    us."""

    def __init__(self, beside: bool, loaders: int | None = None) -> None:
        """`beside`: `X://local` is beside the client, and the link leads to `X://remote`; else to both.
        `loaders`: so many share the streams, each at the end of its own link; None: one client has all."""
        self._local = CoreExecutor()
        self._lab = Laboratory(loaders or 1)
        self._loaders = None if loaders is None else _Loaders(self._lab)
        self.starter = _Ends(self._lab, beside)
        try:
            self.environments()
        except BaseException:
            self.close()
            raise

    def environments(self) -> dict[str, dict[str, Any]]:
        """The host and software of each loader, by its name."""
        return {} if self._loaders is None else self._loaders.environments()

    def control(self) -> TrialControl:
        return self._local.control() if self._loaders is None else self._loaders.control()

    def _trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        """The record of a trial at the client's end, as things are."""
        if self._loaders is not None:
            return self._loaders.run_trial(text, control)
        assert isinstance(control, executor.TrialHandle)
        return dict(json.loads(executor.run_in_process(text, control, self._lab.within(CLIENT))))

    def _probe(self, document: dict[str, Any], link: links.Link | None, control: TrialControl) -> str:
        """Raw TCP from the client's end, as things are: over this link, or to a server beside it."""
        if self._loaders is not None:
            return self._loaders.probe_tcp(json.dumps(document), control)
        assert isinstance(control, executor.TrialHandle)
        text = json.dumps(document | {"near": link is None or _by_its_ends(link, document["direction"])})
        return executor.run_in_process(text, control, self._lab.within(CLIENT), "probe_tcp")

    def run_trial(self, spec: str, control: TrialControl) -> dict[str, Any]:
        document = json.loads(spec)
        if (wanted := document.get("link")) is None:
            self._lab.rest()
            return self._trial(spec, control)
        try:
            found = self._made(document, control)
        except Stopped:
            return failed_record("cancelled", "stopped while its link was made", "interrupted")
        except WrongLink as wrong:
            seen = {"asked": links.parse(wanted).text, **wrong.found}
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
        if (wanted := document.get("link")) is None:
            self._lab.rest()
            return self._probe(document, None, control)
        try:
            self._made(document, control)
            with self._lab.held(control.cancel):
                return self._probe(document, links.parse(wanted), control)
        except (Stopped, WrongLink, OSError) as error:
            failure = {"kind": "link", "message": str(error) or "stopped", "stream": None}
            return json.dumps({"outcome": "failed", "error": failure})

    def _made(self, document: dict[str, Any], control: TrialControl) -> dict[str, Any]:
        """Makes the link that a spec asks for, takes that out of it, and says what was measured of it."""
        assert isinstance(control, executor.TrialHandle | ClusterControl)
        link, backplane = links.parse(document.pop("link")), document.pop("backplane", None)
        shared = links.rates(backplane) if backplane is not None else None
        found = self._lab.ready(link, document.pop("cross", None), shared, lambda: control.cancelled)
        return {"asked": link.text, **found}

    def probe(self, spec: str, control: TrialControl) -> str:
        return self._local.probe(spec, self._local.control())

    def close(self) -> None:
        with contextlib.closing(self._lab):
            if self._loaders is not None:
                self._loaders.close()


class _Loader(LoaderProcess):
    clock = ONE_MACHINE


class _Loaders(LoadersExecutor):
    """A loader at each client's end."""

    def __init__(self, lab: Laboratory) -> None:
        self._lab = lab
        self._running: list[_Loader] = []

    def environments(self) -> dict[str, dict[str, Any]]:
        loaders = self.ready(len(self._lab.hosts.clients))
        return {loader.name: dict(loader.identity["environment"]) for loader in loaders}

    def chosen(self, name: str) -> list[_Loader]:
        return [it for it in self.ready(len(self._lab.hosts.clients)) if it.name == name]

    def ready(self, count: int, spec: Mapping[str, Any] | None = None) -> list[_Loader]:
        """So many; one that has ended is replaced. Raises VenturiError."""
        for at, client in enumerate(self._lab.hosts.clients[:count]):
            if at < len(self._running) and self._running[at].running and self._running[at].identity:
                continue
            for ended in self._running[at : at + 1]:
                ended.close()
            self._running[at : at + 1] = [
                _Loader(f"loader-{at + 1}", address(client), self._lab.within(client))
            ]
        identify(self._running[:count], _BEGIN_SECONDS)
        return self._running[:count]

    def close(self) -> None:
        with contextlib.ExitStack() as ends:
            for loader in self._running:
                ends.callback(loader.close)
