"""Real ssh to namespaces as hosts: Debian's sshd on each, and a client's settings."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support.hosts import Hosts
from support.installed import program, unpacked_libraries
from support.needs import require
from support.wait import wait_until

# sshd wants a user of its own and a directory of root's: in a view of the file system that only it has.
_AS_INSTALLED = """
set -eu
mount --bind "$1/passwd" /etc/passwd
mkdir -p /run/sshd
mount --bind "$1/empty" /run/sshd
shift
exec "$@"
"""
_SERVER = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
LogLevel ERROR
"""
_CLIENT = """\
Host *
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 30
"""


@contextlib.contextmanager
def ssh(on: Hosts) -> Iterator[str]:
    """The command that runs another on a host: `ssh -F FILE`, which knows them as h1, h2, ..."""
    server = program("sshd")
    require(server and shutil.which("ssh"), "sshd and ssh (tools/install-servers)")
    folder = Path(tempfile.mkdtemp(prefix="vtssh", dir="/tmp"))
    running = []
    try:
        for name in ("host", "key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True, timeout=20)
        (folder / "empty").mkdir()
        passwd = Path("/etc/passwd").read_text()
        if "sshd" not in {user.pw_name for user in pwd.getpwall()}:
            passwd += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        (folder / "passwd").write_text(passwd)
        (folder / "sshd_config").write_text(_SERVER.format(folder=folder))
        names = "".join(f"Host h{host.number}\n  HostName {host.address}\n" for host in on)
        (folder / "config").write_text(names + _CLIENT.format(folder=folder))
        libraries = unpacked_libraries()
        for host in on:
            prepared = ["unshare", "--mount", "sh", "-c", _AS_INSTALLED, "sh", folder]
            words = [server, "-D", "-e", "-f", folder / "sshd_config"]
            running.append(host.start(*prepared, *words, env={**os.environ, "LD_LIBRARY_PATH": libraries}))
        command = f"ssh -F {folder / 'config'}"
        for host in on:
            reach = [*command.split(), f"h{host.number}", "true"]
            wait_until(lambda reach=reach: on[0].run(*reach).returncode == 0)
        yield command
    finally:
        for process in running:
            process.terminate()
            process.communicate()
        shutil.rmtree(folder, ignore_errors=True)
