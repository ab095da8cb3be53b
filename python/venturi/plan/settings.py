"""The tables [target], [hosts] and [run] of a scenario as validated models, and what is said beside them."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr

from venturi.common import links
from venturi.common.credentials import storable_command
from venturi.common.suffixes import parse_count, parse_duration, parse_percent
from venturi.plan.workload import Duration, NonNegative
from venturi.targets.fields import Nullable, Table
from venturi.targets.options import DEFAULTS, ONLY_HERE, SETTINGS, Options
from venturi.targets.setting import SEVERAL, Setting
from venturi.targets.system import LOCAL, handicap_ns, scheme_of
from venturi.targets.urls import check_url


@cache
def usual(model: type[Table]) -> dict[str, Any]:
    """What each field is where nothing is said, to compare with: pydantic looks for it anew each time."""
    return {n: field.get_default(call_default_factory=True) for n, field in model.model_fields.items()}


Repeats = Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=1_000_000)]


class Target(Options):
    """Where it is moved, and how the client speaks. Secrets are names of environment variables."""

    url: Annotated[
        str,
        AfterValidator(check_url),
        Setting(
            "URL, as flight://host:31337 or mysql://host/database; NAME://local starts a server for the run, "
            "NAME://remote on hosts of its own (--on), or at the other end of a --link.",
            flag="--target",
            commas="text",
            cell="target",
            role="workload",
            doc="see [addresses](#addresses)",
        ),
    ] = LOCAL

    def changed(self) -> dict[str, Any]:
        """The options that differ from their default."""
        return {
            name: getattr(self, name)
            for name, default in usual(type(self)).items()
            if name != "url" and getattr(self, name) != default
        }

    def options(self) -> dict[str, Any]:
        """The options of a trial spec: those that differ from what the target does of itself."""
        systems = DEFAULTS.get(scheme_of(self.url), {})
        found = {
            name: value
            for name, value in self.changed().items()
            if value != systems.get(name) and name not in ONLY_HERE
        }
        if found.get("digits") == "shortest":
            found["digits"] = None
        if "server_settings" in found:
            found["server_settings"] = dict(w.split("=", 1) for w in found["server_settings"].split(","))
        if self.handicap:
            found["handicap"] = handicap_ns(self.handicap)
        return {SETTINGS[name].spec or name: value for name, value in found.items()}


def _resource(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Za-z_][\w.\-/]*", value):
        raise ValueError(
            f"{value!r} is no name of a resource, as in ray start --resources '{{\"loader\": 1}}'"
        )
    return value


def _network(value: str | None) -> str | None:
    """An address, or a network as 10.77.0.0/24."""
    if value is not None:
        import ipaddress

        try:
            ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise ValueError(f"{value!r} is neither an address nor a network, as 10.77.0.0/24") from None
    return value


def _cross(value: Any) -> Any:
    return None if value in (None, "none", "null") else parse_percent(value)


_placing = partial(Setting, panel="Several hosts")
_hosts = partial(_placing, cell=None)


class Hosts(Table):
    """Where a trial's streams run when it is placed on several hosts by `--on`; and the links between
    loaders and server, where some are made for the run. Without either one process runs all."""

    link: Annotated[
        Nullable[Annotated[str, BeforeValidator(links.canonical)]],
        _placing(
            'Link to the server, made for the run: 1gbit, "200mbit 30ms loss 0.1%", or a name as wifi6. '
            "Several: 100mbit,1gbit.",
            doc=(
                "a link made for the run between client and server, each in a network namespace of its own: "
                "see [links](links.md)"
            ),
            default="none: the loopback",
        ),
    ] = None
    backplane: Annotated[
        Nullable[Annotated[str, BeforeValidator(links.canonical_rate)]],
        _placing(
            "Rate that loaders share on their way to the server, as 2gbit; each has --link to there.",
            doc=(
                "rate of what several loaders share on their way to the server: their switch, or the "
                "server's link. Each has a `link` of its own to there"
            ),
            default="as that of one link",
        ),
    ] = None
    server: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(storable_command)]],
        _placing(
            "With --link: a program that is started at its other end. {server} is where, in --target, "
            "--command, --driver-option.",
            commas="text",
            cell=None,
            doc=(
                "a program of somebody else's, started for the run at the other end of the `link`: see "
                "[your own server](links.md#your-own-server)"
            ),
            default="none",
        ),
    ] = None
    cross: Annotated[
        float | None,
        BeforeValidator(_cross),
        _placing(
            "Share of the link that others use meanwhile, as 30%; none = nobody.",
            doc="share of the link's rate, in percent, that other traffic takes meanwhile, both ways",
            default="none: nobody",
        ),
    ] = None
    loaders: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)]],
        _hosts(
            f"Processes that share a trial's streams, with --on or --link; one a host.{SEVERAL}",
            cell="loaders",
            doc=(
                "processes that share the streams, each on a host of its own (`--loaders`); may be an "
                "axis of `[matrix]`. None has less than one stream"
            ),
            default="as many as the cluster has hosts; of Spark as many as streams; over a `link` one",
            role="parallel",
        ),
    ] = None
    servers: Annotated[
        Nullable[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10_000)]],
        _hosts(
            "Hosts on which NAME://remote starts a server each. [default: 1]",
            doc=(
                "hosts, without a loader, on which `X://remote` starts a server each. Streams take them "
                "in turn; `charrow://remote` is one"
            ),
            default="`1`",
        ),
    ] = None
    loader_resource: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(_resource)]],
        _hosts(
            "Loaders only on hosts with this resource of Ray's.",
            doc=(
                "only hosts with this resource of Ray's get a loader: `ray start --resources '{\"loader\": "
                "1}'`"
            ),
            default="any host with a free CPU",
        ),
    ] = None
    server_resource: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(_resource)]],
        _hosts(
            "Those servers only on hosts with this resource of Ray's.", default="any host with a free CPU"
        ),
    ] = None
    interface: Annotated[
        Nullable[Annotated[StrictStr, AfterValidator(_network)]],
        _hosts(
            "Network in which servers listen on their hosts, as 10.77.0.0/24.",
            doc=(
                'a network as `"10.77.0.0/24"`: servers that are started listen on their host\'s address '
                "there"
            ),
            default="the address by which Ray knows the host",
        ),
    ] = None


def _adaptive(value: Any) -> Any:
    return None if value is False or value in ("off", "none") else parse_percent(value)


def _ceilings(value: Any) -> Any:
    """Files of before there were rounds have a switch: what it asked for was measured once."""
    return {True: "once", False: "none"}[value] if isinstance(value, bool) else value


_run = partial(Setting, panel="Trials", cell=None)


class Run(Table):
    """How often, in which order, and what happens on a failure."""

    repeats: Annotated[
        Repeats,
        _run(
            "Measured trials of each cell.",
            doc=(
                "measured trials of each cell, at most a million, and 10 million of all cells with warm-"
                "up; the range of 5 holds the median with 93.75 %, from 6 on there is a 95 % interval"
            ),
        ),
    ] = 5
    warmup: Annotated[
        Annotated[int, BeforeValidator(parse_count), Field(ge=0, le=1_000_000)],
        _run("Trials of each cell before those that count."),
    ] = 1
    shuffle: Annotated[StrictBool, _run("Each round runs all cells once, in an order of its own.")] = True
    seed: Annotated[NonNegative, _run("Seed of that order.", flag="--shuffle-seed")] = 1
    adaptive: Annotated[
        float | None,
        BeforeValidator(_adaptive),
        _run(
            "Go on until each median's 95 % interval is narrower, as 2%; off = never.",
            doc=(
                "after `repeats`, go on with each cell until its 95 % interval of the median is narrower "
                'than this share of it twice in a row: `"2%"`'
            ),
            default="off",
        ),
    ] = None
    max_repeats: Annotated[Repeats, _run("Where the adaptive stop stops at the latest.")] = 30
    on_failure: Annotated[Literal["continue", "stop"], _run("After a failed trial: continue or stop.")] = (
        "continue"
    )
    timeout: Annotated[
        Duration, _run("For connecting, and for a stream without progress, as 30s.", default="`30s`")
    ] = 30_000_000_000
    sample_interval: Annotated[
        Annotated[int, BeforeValidator(parse_duration), Field(ge=0)],
        _run("Of the counters over time, as 100ms; 0 = none.", default="`100ms`"),
    ] = 100_000_000
    ceilings: Annotated[
        Literal["rounds", "once", "none"],
        BeforeValidator(_ceilings),
        _run(
            "Measure the physical limits as well: in all rounds, or once before them, or none.",
            negative="none",
            doc=(
                "when the [physical limits](ceilings.md) are measured: `rounds`, between the trials of every "
                "round; `once`, before them; `none`. `true` and `false`, of older files, are `once` and "
                "`none`"
            ),
        ),
    ] = "rounds"


BESIDE = {
    "place": Setting(
        "LABEL=URL: an address beside others, as remote=flight://host:31337. Repeatable.",
        form="pairs",
        role="workload",
    ),
    "on": Setting(
        "Where the streams run: ray://HOST:PORT, auto (the Ray cluster of this host), local (Ray, here "
        "alone) or spark; here,spark in both places. [default: this process]",
        panel="Several hosts",
        commas="text",
    ),
    "master": Setting(
        "Spark's, as local[4] or spark://HOST:7077, with --on spark.",
        panel="Several hosts",
        commas="text",
        cell=None,
    ),
    "row_bytes": Setting("Payload bytes of a row.", float, flag="", role="workload"),
    "settings": Setting(
        "TABLE.KEY=VALUE: any setting by its name in a file, as matrix.streams=1..8. Repeatable.",
        flag="--set",
        form="pairs",
        cell=None,
    ),
}
"""What is said of a run, or follows for a cell, beside the keys of its tables."""
