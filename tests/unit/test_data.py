"""Users' files made ready for the clock."""

from __future__ import annotations

import gzip
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from venturi.common.environment import group_memory
from venturi.common.errors import DataWarning, ScenarioError
from venturi.inputs import files
from venturi.inputs.files import DataStore, read_table


def table(rows: int) -> pa.Table:
    return pa.table(
        {
            "n": pa.array([None if i % 5 == 0 else i for i in range(rows)], pa.int32()),
            "s": pa.array([f"row {i}" for i in range(rows)]),
            "d": pa.chunked_array(
                # Two chunks with different dictionaries, as Parquet row groups have them.
                [
                    pa.array([f"v{i % 3}" for i in range(rows // 2)]).dictionary_encode(),
                    pa.array([f"w{i % 4}" for i in range(rows - rows // 2)]).dictionary_encode(),
                ]
            ),
            "l": pa.array([[i, i + 1] for i in range(rows)], pa.list_(pa.int64())),
        }
    )


def write(found: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(found, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(
            path, found.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            writer.write_table(found.unify_dictionaries())
    else:
        with pa.ipc.new_stream(path, found.schema) as writer:
            writer.write_table(found)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("rows_per_batch", [1, 7, 100, 4096])
def test_batches_are_all_full_and_rows_come_round(tmp_path: Path, suffix: str, rows_per_batch: int) -> None:
    found = table(100)
    write(found, tmp_path / f"t{suffix}")
    with DataStore() as store:
        made = store.prepare(str(tmp_path / f"t{suffix}"), rows_per_batch)
        with pa.ipc.open_file(made.ipc) as reader:
            batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
            rows = reader.read_all().to_pylist()
        assert {batch.num_rows for batch in batches} == {rows_per_batch}
        assert len(rows) == made.rows == -(-100 // rows_per_batch) * rows_per_batch
        assert rows == (found.to_pylist() * (len(rows) // 100 + 1))[: len(rows)]
        # One dictionary serves all batches.
        assert len({tuple(b.column(2).dictionary.to_pylist()) for b in batches}) == 1
        assert made.row_bytes > 0
        assert store.prepare(str(tmp_path / f"t{suffix}"), rows_per_batch) is made
    assert not made.ipc.exists() and not made.ipc.parent.exists()


def test_a_table_is_served_as_it_is(tmp_path: Path) -> None:
    write(table(100), tmp_path / "t.parquet")
    with DataStore() as store:
        made = store.prepare(str(tmp_path / "t.parquet"))
        assert (made.rows, made.name) == (100, "t")


def test_csv_plain_and_packed(tmp_path: Path) -> None:
    text = b"a,b\n1,x\n2,y\n"
    (tmp_path / "t.csv").write_bytes(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "t.tsv").write_bytes(text.replace(b",", b"\t"))
    for name in ("t.csv", "t.csv.gz", "t.tsv"):
        assert read_table(str(tmp_path / name)).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    for text, doubt in (
        ("id;v\n0;x\n", "one column, named 'id;v'"),
        ("0,7\n1,8\n", "columns: 0, 7; if .* '1i c0,c1' FILE"),
    ):
        (tmp_path / "d.csv").write_text(text)
        with pytest.warns(DataWarning, match=doubt):
            read_table(str(tmp_path / "d.csv"))


def test_content_counts_more_than_the_name(tmp_path: Path) -> None:
    write(table(4), tmp_path / "t.parquet")
    (tmp_path / "t.parquet").rename(tmp_path / "t.dat")
    assert read_table(str(tmp_path / "t.dat")).num_rows == 4


@pytest.mark.parametrize("made", [pa.ipc.new_file, pa.ipc.new_stream])
def test_damaged_offsets_are_bad_input(made: Callable[..., Any], tmp_path: Path) -> None:
    path, found = tmp_path / "t.arrow", pa.table({"a": ["abcd" * n for n in range(9)]})
    with made(path, found.schema) as writer:
        writer.write_table(found)
    path.write_bytes(
        path.read_bytes().replace(struct.pack("<ii", 84, 112), struct.pack("<ii", 84, 2**31 - 1))
    )
    with pytest.raises(ScenarioError, match=r"not readable as .*Arrow IPC.*: .*offset"):
        read_table(str(path))


def test_files_of_one_name_do_not_meet_on_the_server(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(table(4), tmp_path / folder / "t.parquet")
    with DataStore() as store:
        names = [store.prepare(str(tmp_path / folder / "t.parquet"), 2).name for folder in ("a", "b")]
    assert names == ["t-2", "t-2-1"]


def test_the_largest_row_is_looked_for_among_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "memory_limit", lambda: 10**7)
    pq.write_table(pa.table({"n": range(20_000)}), tmp_path / "t.parquet")
    with (
        DataStore() as store,
        pytest.raises(ScenarioError, match="row of the first 10,000 is number 1, of 9 B"),
    ):
        store.prepare(str(tmp_path / "t.parquet"), 10**6)


def test_a_batch_is_bounded_before_rows_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "memory_limit", lambda: 10**8)
    pq.write_table(pa.table({"s": ["x", "y" * 10**6]}), tmp_path / "t.parquet")
    with DataStore() as store:
        assert store.prepare(str(tmp_path / "t.parquet"), 80).rows == 80
        with pytest.raises(ScenarioError) as failed:
            store.prepare(str(tmp_path / "t.parquet"), 65_536)
    assert str(failed.value).endswith(
        "t.parquet: a batch of 65,536 rows would be 32.8 GB; the most is 50 MB; "
        "the largest row is number 2, of 1 MB"
    )
    assert failed.value.hint == "take fewer rows per batch: --rows-per-batch 90"


def _packed(found: pa.Table, path: Path) -> None:
    made = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with made(path, found.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(found)


def _csv_gz(found: pa.Table, path: Path) -> None:
    with gzip.open(path, "wb") as file:
        pyarrow.csv.write_csv(found, file)


TEXTS = ["x" * 10**4] * 300


@pytest.mark.parametrize(
    ("name", "made", "found"),
    [
        ("t.parquet", lambda t, p: pq.write_table(t, p), {"s": TEXTS}),
        ("t.parquet", lambda t, p: pq.write_table(t, p), {"s": [[{"a": text}] for text in TEXTS]}),
        ("t.parquet", lambda t, p: pq.write_table(t, p), {"n": [7] * 10**6}),
        ("t.arrow", _packed, {"s": TEXTS}),
        ("t.arrow", _packed, {"s": pa.array(["x" * 10**6, "y" * 10**6]).dictionary_encode()}),
        ("t.arrows", _packed, {"s": TEXTS}),
        ("t.csv.gz", _csv_gz, {"s": TEXTS}),
        ("t.csv.gz", _csv_gz, {"n": [1] * 10**5, "m": [1] * 10**5}),
    ],
)
def test_a_file_that_expands_is_refused_before_it_is_decoded(
    name: str,
    made: Callable[..., Any],
    found: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / name
    made(pa.table(found), path)
    assert path.stat().st_size < 10**6 and read_table(str(path)).num_rows
    monkeypatch.setattr(files, "memory_limit", lambda: 2 * 10**6)
    for module, name in ((pq.ParquetFile, "read"), (pa.ipc, "open_file"), (pa.ipc, "open_stream"),
                         (pyarrow.csv, "read_csv")):  # fmt: skip
        monkeypatch.setattr(module, name, None)
    with pytest.raises(ScenarioError, match=r"t\..*: its rows are .* may take 2 MB") as failed:
        read_table(str(path))
    assert failed.value.hint == "give --data a file with fewer rows"


def test_a_dictionary_is_measured_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _packed(
        pa.table({"s": pa.array(TEXTS).dictionary_encode(), "n": pa.array([1] * 300).dictionary_encode()}),
        tmp_path / "t.arrow",
    )
    with DataStore() as store:
        assert store.prepare_values(str(tmp_path / "t.arrow"), 10).rows == 300
    monkeypatch.setattr(files, "memory_limit", lambda: 2 * 10**6)
    with DataStore() as store, pytest.raises(ScenarioError, match="its rows are 3"):
        store.prepare_values(str(tmp_path / "t.arrow"))


def test_the_limit_of_memory_is_that_of_the_control_group(tmp_path: Path) -> None:
    for path, text in {
        "a/memory.max": "max",
        "memory.max": "300",
        "memory/b/memory.limit_in_bytes": "7",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    assert group_memory("4:memory:/b/c\n2:cpu:/b\n0::/a\n", str(tmp_path)) == [7, 300]


def test_the_table_that_comes_with_venturi() -> None:
    found = read_table("builtin:birdstrikes")
    assert (found.num_rows, found.num_columns) == (10_000, 14)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n")
    path.chmod(0)
    with pytest.raises(ScenarioError, match="Permission denied"):
        read_table(str(path))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: Is a directory"):
        read_table(str(tmp_path))
