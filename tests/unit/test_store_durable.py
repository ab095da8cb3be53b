"""What `--durable` promises, seen from the system's side: which calls the store makes before it answers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.needs import require
from support.store import Store, row
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")

# In front of the C library: writes down, in their order, the calls that make files last, and the answers
# that are sent. While the file FAIL is there, the log cannot be synced.
NOTES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void note(const char *text) {
    static int file = -1;
    if (file < 0) file = open(getenv("NOTES"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (write(file, text, strlen(text)) < 0) abort();
}

static void synced(const char *call, int file) {
    char link[64], path[4096], line[4300];
    struct stat found;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    fstat(file, &found);
    snprintf(line, sizeof line, "%s %s %lld\n", call, path, (long long)found.st_size);
    note(line);
}

int fdatasync(int file) {
    if (access(getenv("FAIL"), F_OK) == 0) { errno = EIO; return -1; }
    int done = NEXT(fdatasync)(file);
    synced("fdatasync", file);
    return done;
}

int fsync(int file) {
    int done = NEXT(fsync)(file);
    synced("fsync", file);
    return done;
}

int rename(const char *from, const char *to) {
    char line[8300];
    int done = NEXT(rename)(from, to);
    snprintf(line, sizeof line, "rename %s %s\n", from, to);
    note(line);
    return done;
}

int unlink(const char *path) {
    char line[4300];
    snprintf(line, sizeof line, "unlink %s 0\n", path);
    note(line);
    return NEXT(unlink)(path);
}

ssize_t send(int socket, const void *bytes, size_t length, int flags) {
    char line[64];
    if (length > 4 && length < 40 && memcmp(bytes, "+OK ", 4) == 0) {
        snprintf(line, sizeof line, "answer %.*s", (int)length, (const char *)bytes);
        note(line);
    }
    return NEXT(send)(socket, bytes, length, flags);
}
"""


class Noted:
    """A store whose calls are noted."""

    def __init__(self, tmp_path: Path, library: Path, durable: str) -> None:
        self.notes, self.fail = tmp_path / "notes", tmp_path / "fail"
        self.data = tmp_path / "data"
        flags = ("--durable", durable, "--threads", "1")
        given = {"LD_PRELOAD": str(library), "NOTES": str(self.notes), "FAIL": str(self.fail)}
        self.store = Store(self.data, *flags, **given)

    def calls(self) -> list[list[str]]:
        """What was noted of the store's files so far: the call, and what it was given."""
        lines = [line.split() for line in self.notes.read_text().splitlines()]
        return [line for line in lines if line[0] == "answer" or line[1].startswith(str(self.data))]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    source, library = folder / "notes.c", folder / "notes.so"
    source.write_text(NOTES)
    try:
        words = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
        subprocess.run(words, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        require(False, "a C compiler")
    return library


@pytest.fixture
def noted(tmp_path: Path, library: Path) -> Callable[[str], Noted]:
    return lambda durable: Noted(tmp_path, library, durable)


FLUSHES = 20


def flushed(store: Store) -> None:
    line = store.connect()
    for second in range(FLUSHES):
        line.send(row(second, 1.0, 2.0))
        assert line.flush() == f"+OK {2 * (second + 1)}"


def test_fsync_answers_what_the_disk_has(noted: Callable[[str], Noted]) -> None:
    of = noted("fsync")
    with of.store as store:
        flushed(store)
        calls = of.calls()
    answers = [place for place, call in enumerate(calls) if call[0] == "answer"]
    assert len(answers) == FLUSHES
    size = 0
    for before, answer in zip([0, *answers], answers, strict=False):
        synced = [call for call in calls[before:answer] if call[0] == "fdatasync"]
        assert synced, f"answer {calls[answer]} came without a sync since the one before"
        assert "/log/" in synced[-1][1]
        # The whole of what was answered was in the file by then.
        assert int(synced[-1][2]) > size
        size = int(synced[-1][2])


@pytest.mark.parametrize("durable", ["os", "none"])
def test_others_do_not_wait_for_the_disk(noted: Callable[[str], Noted], durable: str) -> None:
    of = noted(durable)
    with of.store as store:
        flushed(store)
        store.post("/api/seal")
        calls = [call[0] for call in of.calls()]
    assert calls.count("answer") == FLUSHES
    assert "fdatasync" not in calls and "fsync" not in calls


def test_what_the_disk_does_not_take_is_not_acknowledged(noted: Callable[[str], Noted]) -> None:
    of = noted("fsync")
    with of.store as store:
        line = store.connect()
        line.send(row(1, 1.0, 2.0))
        assert line.flush() == "+OK 2"
        of.fail.touch()
        line.send(row(2, 1.0, 2.0))
        said = line.flush()
        assert said.startswith("-DB cannot sync a log: Input/output error") and "started again" in said
        # The disk may be well again: what it has lost meanwhile, nobody knows.
        of.fail.unlink()
        assert store.connect().flush().startswith("-DB cannot sync a log")
        assert "cannot sync a log" in store.stats()["failure"]


def test_a_log_goes_when_its_segment_is_on_the_disk(noted: Callable[[str], Noted]) -> None:
    of = noted("fsync")
    with of.store as store:
        flushed(store)
        store.post("/api/seal")
        # It answers when all is on the disk, and the log may go a moment later.
        wait_until(
            lambda: any(name == "unlink" and "/log/" in path for name, path, *_ in of.calls()), of.calls
        )
        calls = of.calls()

    def place(wanted: str) -> int:
        (found,) = [at for at, call in enumerate(calls) if re.search(wanted, " ".join(call))]
        return found

    order = [
        place(r"^fsync \S*/points/0{15}1\.parquet\.tmp "),
        place(r"^fsync \S*/series/0{15}1\.parquet\.tmp "),
        place(r"^rename \S* \S*/series/0{15}1-"),
        place(r"^fsync \S*/data/series "),
        place(r"^rename \S* \S*/points/0{15}1-"),
        place(r"^fsync \S*/data/points "),
        place(r"^unlink \S*/log/0{15}1\.log "),
    ]
    assert order == sorted(order)
