"""What this machine knows of clusters: the one that `venturi cluster up` started from here, the node here.

Kept below XDG_STATE_HOME (~/.local/state): `cluster.json` with hosts and how they are reached, and
`cluster-token` with the secret that Ray demands, readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from venturi.cluster.up import node
from venturi.common.errors import StoreError

__all__ = ["environment_for", "forget", "kept", "remember", "token_file"]


def _folder() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "venturi"


def _file() -> Path:
    return _folder() / "cluster.json"


def token_file() -> Path:
    """Where the token of the cluster started from here lies."""
    return _folder() / "cluster-token"


def kept() -> dict[str, Any] | None:
    """What `remember` was given last, None where no cluster was started from here."""
    try:
        found = json.loads(_file().read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def remember(cluster: dict[str, Any], token: str | None) -> None:
    """Notes a cluster before its first node is started, so that `down` finds all of it. Raises StoreError."""
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        token_file().unlink(missing_ok=True)
        if token is not None:
            with open(os.open(token_file(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(token)
        _file().write_text(json.dumps(cluster, indent=2) + "\n")
    except OSError as error:
        raise StoreError(f"{_folder()}: cannot be written: {error.strerror}") from None


def forget() -> None:
    """The cluster started from here is gone."""
    for path in (_file(), token_file()):
        with contextlib.suppress(OSError):
            path.unlink()


def environment_for(on: str) -> dict[str, str]:
    """Variables that Ray needs for `--on ON`; none of those that are set already.

    `auto` on a host of a cluster means that cluster, whose files Ray would not look for; `ray://HOST:PORT` of
    the one started from here needs its token.
    """
    found: dict[str, str] = {}
    if on == "auto":
        directory = node.here((kept() or {}).get("directory"))
        found = node.access(directory) if directory is not None else {}
    elif on != "local":
        cluster = kept()
        host = urlsplit(on).hostname if "://" in on else on.rpartition(":")[0]
        if (
            cluster is not None
            and host in (cluster["head"], cluster["head_address"])
            and token_file().exists()
        ):
            found = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_file())}
    return {**node.quiet_environment(), **{k: v for k, v in found.items() if k not in os.environ}}
