"""Tables of mistakes: tests/data/mistakes/WING.txt has what is wrong, and what is said to it. Those in
texts/ and scenarios/ have the same form.

A case ends with a blank line: first what is written, then the answer, whose lines begin with `=> `. In the
place of `<...>` there are words of a library. A new case is written without its answer; then
`VENTURI_UPDATE=1 pytest` with the test of that table, and the answer is read before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from support.run import DATA

ANSWER = "=> "
MORE = "<...>"


def cases(text: str) -> Iterator[tuple[str, list[str]]]:
    """What is written, and the lines of the answer."""
    for case in text.strip("\n").split("\n\n"):
        lines = case.split("\n")
        asked = [line for line in lines if not line.startswith(ANSWER)]
        yield "\n".join(asked), [line.removeprefix(ANSWER) for line in lines if line.startswith(ANSWER)]


def same(answer: list[str], expected: list[str]) -> bool:
    def one(said: str, line: str) -> bool:
        before, more, after = line.partition(MORE)
        return said.startswith(before) and said.endswith(after) if more else said == line

    return len(answer) == len(expected) and all(map(one, answer, expected))


def check(wing: str, ask: Callable[[str], str], folder: str = "mistakes") -> None:
    """Holds what `ask` answers to each case of the table against the answer there."""
    path: Path = DATA / folder / f"{wing}.txt"
    answers, wrong = [], []
    for asked, expected in cases(path.read_text(encoding="utf-8")):
        said = ask(asked).splitlines()
        fine = same(said, expected)
        answers.append((asked, expected if fine else said))
        wrong += [] if fine else ["\n".join([asked, *said, "and not", *expected])]
    if os.environ.get("VENTURI_UPDATE") == "1":
        written = ("\n".join([asked, *(ANSWER + line for line in said)]) for asked, said in answers)
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")
        return
    assert wrong == [], "\n\n".join(wrong)
