"""Whom a server runs as where Venturi is root: servers refuse root, or should."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from venturi.common.errors import VenturiError
from venturi.servers.throwaway.guarded import Guarded, Owner

_CHECK_SECONDS = 10.0


def owner_for(account: str | None) -> Owner | None:
    """User and group to run as: `account`, or nobody where there is no such account; None: as we are."""
    if account is None or os.geteuid() != 0:
        return None
    for name in (account, "nobody"):
        try:
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
        except KeyError:
            continue
    raise VenturiError(
        f"run by root, a server needs an account of its own, and there is neither {account} nor nobody"
    )


def give(directory: Path, guarded: Guarded, named: Path | None) -> None:
    """Makes the directory the server's. Raises VenturiError where its account cannot come there."""
    if guarded.owner is None:
        return
    if named is not None:
        os.chown(named, *guarded.owner)
    for path, _, files in os.walk(directory):
        os.chown(path, *guarded.owner)
        for name in files:
            os.chown(os.path.join(path, name), *guarded.owner, follow_symlinks=False)
    command = ["/bin/sh", "-c", 'test -w "$1"', "sh", str(directory)]
    if guarded.run(command, Path(os.devnull), _CHECK_SECONDS) != 0:
        name = pwd.getpwuid(guarded.owner[0]).pw_name
        raise VenturiError(
            f"--data {named}: the account {name}, which the server runs as for root, cannot enter it"
            if named is not None
            else f"{directory}: the account {name}, which the server runs as for root, cannot enter it",
            hint="every directory above it must let others pass (chmod o+x); /var/tmp does",
        )
