"""The seeds' own lines: numbers as a C++ ostream prints them, and the round trip."""

from pathlib import Path

import pytest

from support.synthetic import cells, make_run
from venturi.analysis.results import load
from venturi.common.errors import VenturiError
from venturi.report.tables import perf_stats
from venturi.store import reference

SETS = ["macbook-get", "macbook-put", "cartesius-localhost", "cartesius-remote"]


def published(name: str) -> list[list[str]]:
    text = (Path(reference.__file__).parent / f"{name}.csv").read_text()
    return [line.split(",") for line in text.splitlines()[1:]]


@pytest.mark.parametrize("name", SETS)
def test_every_published_number_is_printed_as_published(name: str) -> None:
    for line in published(name):
        for text in line[5:]:
            assert perf_stats.ostream(float(text)) == text


@pytest.mark.parametrize("name", SETS)
def test_published_lines_come_back_from_counts(name: str) -> None:
    for kind, streams, threads, rows, batch, mebibytes, seconds, rate in published(name):
        record = {
            "outcome": "ok",
            "parameters": {
                "operation": kind,
                "streams": int(streams),
                "threads": int(threads),
                "rows_per_stream": int(rows),
                "rows_per_batch": int(batch),
            },
            "counts": {"rows": int(streams) * int(rows), "payload_bytes": int(streams) * int(rows) * 32},
            "times": {"interval_ns": float(seconds) * 1e9},
        }
        found = perf_stats.line(record)
        assert found is not None
        fields = found.split("\t")
        number = "0" if kind == "get" else "1"
        assert fields[:7] == [number, streams, threads, rows, batch, mebibytes, seconds]
        # Their rate came from nanoseconds, their seconds are rounded to six digits: the sixth may differ.
        assert float(fields[7]) == pytest.approx(float(rate), rel=2e-5)


def test_exponents_as_in_c_plus_plus() -> None:
    assert [perf_stats.ostream(x) for x in (1e6, 123456.7, 1234567.0, 1e-5, 0.0001, 3.0)] == [
        "1e+06",
        "123457",
        "1.23457e+06",
        "1e-05",
        "0.0001",
        "3",
    ]


def test_lines_of_a_run(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", cells(streams=(1, 2)), repeats=2, fail="streams == 2 and operation == 'put'"
    )
    lines = perf_stats.text(load(run)).splitlines()
    # Warm-ups and failed trials are not in it: 3 good cells x 2 repeats.
    assert len(lines) == 6
    assert [line.split("\t")[:5] for line in lines[::2]] == [
        ["0", "1", "1", "10000000", "4096"],
        ["0", "2", "2", "10000000", "4096"],
        ["1", "1", "1", "10000000", "4096"],
    ]
    for row in perf_stats.parse("\n".join(lines)):
        assert row["mebibytes"] / row["seconds"] == pytest.approx(row["mebibytes_per_second"], rel=1e-4)
        assert row["mebibytes"] == pytest.approx(
            row["streams"] * row["rows_per_stream"] * 32 / 2**20, rel=1e-5
        )


def test_places_cannot_be_told_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", cells(("get",), (1,), ("local", "remote")), repeats=1, warmup=0)
    with pytest.raises(VenturiError, match="no column for the place"):
        perf_stats.text(load(run))


@pytest.mark.parametrize(
    ("text", "message"), [("1\t2", "line 1: 2 columns"), ("\n" + "x\t" * 7 + "1", "line 2")]
)
def test_parse_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        perf_stats.parse(text)
