"""Redis, or Valkey where that is what is installed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from venturi.servers.throwaway import network
from venturi.servers.throwaway.base import Setting, ThrowawayServer, by_venturi


class Redis(ThrowawayServer):
    """One server whose only account, `default`, may do everything."""

    name = "redis"
    scheme = "redis"
    title = "Redis"
    scenario = "upsert-quick"
    taken = {  # noqa: RUF012 - a constant
        **{"port": "--port", "bind": "--host", "dir": "--data", "maxmemory": "--memory"},
        **{"requirepass": "--password-env"},
        **by_venturi("protected-mode", "daemonize", "pidfile", "logfile", "unixsocket"),
    }
    durability = {"appendonly": "no", "save": "3600 1 300 100 60 10000"}  # noqa: RUF012

    _program = ""

    @property
    def user(self) -> str | None:
        return None

    @property
    def socket(self) -> Path:
        return self.directory / "socket"

    @classmethod
    def spelt(cls, name: str) -> str:
        return name.lower()

    def find(self) -> str:
        program = network.find(["redis-server", "valkey-server"])
        if program is None:
            raise network.missing(self.title, "redis-server (or valkey-server)", "redis-server", "redis")
        self._program = program
        return program

    def settings(self) -> list[Setting]:
        return self._chosen(
            Setting("maxmemory", str(self._memory), "--memory: more is refused, so nothing swaps"),
        )

    def _initialise(self, data: Path) -> None:
        """Redis makes its files by itself."""

    def _serve(self, data: Path) -> None:
        password = self.secret()
        lines = [
            f"port {self._port}",
            f"bind {self._host}",
            f"dir {quoted(str(data))}",
            # It would refuse other hosts where no password is set; `venturi serve` has warned of that.
            f"protected-mode {'yes' if network.is_loopback(self._host) else 'no'}",
            f"unixsocket {quoted(str(self.socket))}",
            "unixsocketperm 700",
            "daemonize no",
            *(f"{it.name} {it.used or chr(34) * 2}" for it in self.settings()),
            *([f"requirepass {quoted(password)}"] if password is not None else ()),
        ]
        self._run([self._program, str(self._write("redis.conf", "\n".join(lines) + "\n"))])

    def _answers(self) -> str | None:
        password = self.secret()
        words = [] if password is None else [["AUTH", password]]
        with network.connect(self._host, self._port) as connection:
            for command in [*words, ["INFO", "server"]]:
                connection.sendall(packed(*command))
                reply = b""
                while not reply.endswith(b"\n"):
                    reply += network.received(connection, 1)
                if reply.startswith(b"-LOADING"):
                    return None
                if reply.startswith(b"-"):
                    raise ConnectionError(reply[1:].decode(errors="replace").strip())
            info = network.received(connection, int(reply[1:])).decode(errors="replace")
        for name, title in (("valkey_version", "Valkey"), ("redis_version", "Redis")):
            if found := re.search(rf"^{name}:(\S+)", info, re.MULTILINE):
                return f"{title} {found[1]}"
        return self.title

    def _complaint(self, log: Sequence[str]) -> str:
        # What is wrong with a setting comes after the line that it stands in, without a time.
        at = next((n for n, line in enumerate(log) if "FATAL CONFIG FILE ERROR" in line), None)
        if at is not None:
            return " ".join(line.strip() for line in log[at + 2 : at + 4])
        warnings = [line for line in log if re.search(r" # (?!.*(oO0|WARNING|overcommit))", line)]
        line = (warnings or list(log))[-1]
        return re.sub(r"^\d+:\w .*? [#*] ", "", line).strip()


def quoted(text: str) -> str:
    """A word of the configuration file, whatever is in it."""
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def packed(*words: str) -> bytes:
    """A command as the protocol has it."""
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
