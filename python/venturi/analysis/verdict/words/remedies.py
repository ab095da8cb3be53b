"""A remedy in words, with its command where it has one."""

from __future__ import annotations

from dataclasses import replace

from venturi.analysis.verdict.causes import Why
from venturi.analysis.verdict.types import Remedy
from venturi.analysis.words.wording import Nouns

__all__ = ["told"]

_WORDS = {
    Why.LARGER_BATCHES: "larger batches, for less work a row",
    Why.FEWER_COMMITS: "larger batches, for less work and fewer commits a row",
    Why.SERVERS_BATCHES: "larger batches than the {rows:,.0f} rows that the server sends, which is its own "
    "setting",
    Why.SMALLER_BATCHES: "smaller batches, which stay in the cache",
    Why.MORE_STREAMS: "more {stream}s, so that more workers share it",
    Why.MORE_CONNECTIONS: "more connections, so that more is under way",
    Why.MORE_SENDERS: "more connections, each with a thread of its own",
    Why.MORE_SERVER_CORES: "more connections, which the server may serve on more cores",
    Why.SHARED_COMMITS: "more connections, whose commits the server may write together",
    Why.MORE_BATCHES_IN_FLIGHT: "more batches in flight on each connection",
    Why.MORE_IN_FLIGHT: "more in flight",
    Why.ONE_CONNECTION: "one connection, which waits for no other",
    Why.THREAD_A_STREAM: "a thread a {stream}",
    Why.THREAD_A_CONNECTION: "a thread a connection",
    Why.LIGHTER_CODEC: "a lighter codec",
    Why.NO_COMPRESSION: "no compression",
    Why.COMPRESSION: "fewer bytes on the wire",
    Why.LARGER_POOL: "{pool}: {now} -> {more}",
    Why.POOL_CORES: "more or faster cores at the {end}: as many {pool} as it has cores are busy",
    Why.NO_HANDICAP: "no handicap",
    Why.WITHOUT_HANDICAP: "without the handicap",
    Why.END_WITHOUT_HANDICAP: "start the {end} without --handicap",
    Why.COUNT_ROWS: "count rows instead of checking values",
    Why.ONE_PASS_LESS: "one pass less over the values",
    Why.STOP_OTHERS: "stop what else runs here (venturi doctor names it), then run again",
    Why.OWN_CORE: "keep the client off the server's core",
    Why.WITHOUT_PIN: "without --pin",
    Why.LARGER_QUOTA: "a larger CPU quota for the {end}'s control group than {quota:g} cores",
    Why.RAISE_QUOTA: "raise the CPU quota of the {end}'s control group ({quota:g} of a core)",
    Why.MORE_CORES: "more or faster cores at the {end}",
    Why.SERVER_ELSEWHERE: "the server on another host",
    Why.DATABASE_ELSEWHERE: "the server on another host, and from here",
    Why.ACCOUNTING_SERVER: "what this client and path can do with a server that gives account of itself",
    Why.SERVER_THAT_ACCOUNTS: "a server that does",
    Why.OWN_HOSTS: "each end on a host of its own, with memory of its own",
    Why.PATH_LIMIT: "what the path can do at all",
    Why.RAW_TCP: "",
    Why.FASTER_PATH: "a faster path between the hosts",
    Why.DISK_LIMIT: "what the disk can do",
    Why.FASTER_DISK: "a faster disk at the {end}",
    Why.NO_WINDOW: "no HTTP/2 limit",
    Why.LARGER_WINDOW: "a larger window",
    Why.SERVER_WINDOW: "a larger HTTP/2 window at the server, which is its own setting",
    Why.SEND_BUFFER: "a larger send buffer",
    Why.SERVER_SEND_BUFFER: "a larger send buffer at the server",
    Why.SERVER_OWN_SEND_BUFFER: "a larger send buffer at the server, which is its own setting",
    Why.TCP_BUFFERS: "larger TCP buffers at the {end} (net.ipv4.tcp_rmem; venturi doctor)",
    Why.STREAM_ACKS: "acknowledge a {stream} at a time",
    Why.HIGHER_RATE: "a higher rate",
    Why.CLOSED_LOOP: "the limit itself, closed loop",
    Why.CHEAPER_COMMITS: "what commits cost, by not waiting for the disk",
    Why.WRITE_AHEAD_LOG: "a log in place of rewritten pages",
    Why.OTHER_STATEMENTS: "{statement} statements, which cost client and server otherwise",
    Why.STAGING_TABLE: "a staging table and one merge a batch",
    Why.STATEMENTS_AHEAD: "statements built before the clock starts",
    Why.MESSAGES_AHEAD: "messages made before the clock starts",
    Why.WHOLE_ROWS: "whole rows in place of single values",
    Why.NO_FSYNC: "what durability costs, by not waiting for the disk",
    Why.NO_LOG: "what its log costs, by keeping none",
    Why.MEND: "mend what made them fail",
    Why.OWN_TRIALS: "the same moved by Venturi",
    Why.KEEPS_NONE: "CPU of both ends and of the path while it runs: the tool that made it keeps none",
    Why.LONGER_TRIAL: "a longer trial",
    Why.LARGER_TABLE: "a larger table: the server has sent all that it holds of this one",
    Why.SAMPLES: "with samples",
    Why.SERVERS_HOST: "the same on the server's own host, where its process can be seen",
    Why.MORE_REPEATS: "more repeats, in case they were disturbed",
    Why.FURTHER: "further, as it still rises",
    Why.TELLING_REPEATS: "to tell whether it still rises",
}


def told(remedy: Remedy, nouns: Nouns, begin: str = "") -> Remedy:
    """The same with its words; `begin` stands before them."""
    words = _WORDS[remedy.why].format(stream=nouns.stream, **remedy.changes, **remedy.numbers)
    commands: list[tuple[str, bool]] = [(remedy.before, True), (" there", False)] if remedy.before else []
    if remedy.command:
        commands += [*([(", then ", False)] if commands else []), (remedy.command, True)]
    joint = ", then: " if remedy.why is Why.MEND else ": "
    head = begin + words + (joint if words and commands else "")
    return replace(remedy, parts=tuple(part for part in ((head, False), *commands) if part[0]))
