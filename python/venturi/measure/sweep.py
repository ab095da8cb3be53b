"""The order in which trials are run: repeats interleaved, cells shuffled, warm-up first.

Interleaving matters more than anything else here: a machine that grows slower during a
run must not make the last cell of a sweep look bad.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from venturi.analysis.cells.figures import is_good, main_rate
from venturi.analysis.statistics.intervals import settled
from venturi.common.errors import ExitCode, StoreError, VenturiError
from venturi.common.processes import await_end_with_parent
from venturi.engine.executor import Executor, run_with_progress
from venturi.engine.record import Trial, trial_of
from venturi.engine.spec import build_spec, completed, failed_record, trial_id, trial_line
from venturi.measure.ceilings import RoundProbes
from venturi.measure.run_events import Interrupts, Observer, Result, Slot
from venturi.measure.trial_targets import Endpoints, start_a_server
from venturi.plan.cell import Cell
from venturi.plan.settings import Run
from venturi.store.writer import RunWriter

# Failures after which an address that never answered is given up: 800 cells against a host that is
# switched off would take hours.
_TRIES = 2
# The same once it has answered: a server may come back.
_TRIES_ONCE_SEEN = 10
# What lies with the address and not with the cell, as long as nothing has gone well there.
_ADDRESS_ERRORS = {"unreachable", "tls", "auth", "protocol", "timeout"}


class Sweep:
    """Runs the trials of a scenario that are not on disk yet."""

    def __init__(
        self,
        run: Run,
        endpoints: Endpoints,
        executor: Executor,
        writer: RunWriter,
        observer: Observer,
        interrupts: Interrupts,
        retry_failed: bool = False,
        probes: RoundProbes | None = None,
    ) -> None:
        self._probes = probes
        self._run = run
        self._endpoints = endpoints
        self._executor = executor
        self._writer = writer
        self._observer = observer
        self._interrupts = interrupts
        directory = writer.read()
        self._name = directory.name
        self._order = len(directory.lines())
        trials = directory.records()
        redo = {"interrupted", "failed"} if retry_failed else {"interrupted"}
        self._done = {
            (trial.cell, trial.repeat, trial.warmup) for trial in trials if trial.outcome not in redo
        }
        self._rates: dict[str, list[float]] = {}
        for trial in trials:
            self._learn(trial)
        # Addresses, and cells, that are left out from now on.
        self._abandoned: set[str] = set()
        self._seen: set[str] = set()
        self._silent: dict[str, int] = {}

    def slots(self) -> Iterator[list[Slot]]:
        """Round after round, each all cells in a fresh order; without what is on disk already."""
        found = self._endpoints.cells
        rounds = [(repeat, True) for repeat in range(self._run.warmup)]
        rounds += [(repeat, False) for repeat in range(self._run.repeats)]
        for repeat, warmup in rounds:
            yield self._round(found, repeat, warmup)
        if self._run.adaptive is not None:
            for repeat in range(self._run.repeats, self._run.max_repeats):
                unsettled = [cell for cell in found if not self._settled(cell)]
                if not unsettled:
                    return
                yield self._round(unsettled, repeat, False)

    def _round(self, found: Sequence[Cell], repeat: int, warmup: bool) -> list[Slot]:
        order = list(found)
        if self._run.shuffle:
            # A seed of its own per round, so that a resumed run goes on in the order it would have had.
            random.Random(f"{self._run.seed}/{repeat}/{warmup}").shuffle(order)
        slots = [Slot(cell, repeat, warmup) for cell in order]
        return [slot for slot in slots if (slot.cell.id, slot.repeat, slot.warmup) not in self._done]

    def planned(self) -> int:
        """Trials still to run, without those an adaptive stop may add."""
        ids = {cell.id for cell in self._endpoints.cells}
        rounds = {True: self._run.warmup, False: self._run.repeats}
        done: int = sum(cell in ids and repeat < rounds[warmup] for cell, repeat, warmup in self._done)
        return len(ids) * sum(rounds.values()) - done

    def run(self) -> Result:
        """Runs until the end, a stop, or an interruption. Raises StoreError if trials cannot be kept."""
        result = Result()
        total = self.planned()
        for number_round, slots in enumerate(self.slots()):
            if number_round >= self._run.warmup + self._run.repeats:
                total += len(slots)
            for slot in slots:
                if self._interrupts.requested:
                    result.interrupted = True
                    return result
                if self.is_abandoned(slot.cell):
                    total -= 1
                    continue
                if not self.run_trial(slot, total, result):
                    return result
            if self._probes is not None:
                self._probes.round_ended()
        result.interrupted = self._interrupts.requested
        return result

    def run_trial(self, slot: Slot, total: int, result: Result) -> bool:
        """Runs one trial of `total` and adds it to `result`; false: no more may follow."""
        self._observer.started(result.trials + 1, total, slot)
        if self._probes is not None:
            self._probes.trial_begins()
        line = self._one(slot)
        if self._probes is not None:
            number = None if slot.warmup else slot.repeat
            self._probes.trial_ended(slot.cell, number, line["outcome"] == "ok")
        result.trials += 1
        if line["outcome"] == "interrupted" or self._interrupts.requested:
            result.interrupted = True
            return False
        if line["outcome"] == "failed":
            result.failed += 1
            result.failed_warmups += slot.warmup
            result.kinds.add(line["error"]["kind"])
            result.reasons[f"{line['error']['kind']}: {line['error']['message']}"] = None
            if self._run.on_failure == "stop":
                self._observer.note("error", "stopped at the first failure, as --on-failure stop asks")
                return False
        self._notice_silence(slot, line, result.trials < total)
        return True

    def is_abandoned(self, cell: Cell) -> bool:
        """Whether its address answers no more, or the cell asks for something impossible."""
        return bool({str(cell.parameters["target"]), _way(cell), cell.id} & self._abandoned)

    def _one(self, slot: Slot) -> dict[str, Any]:
        trial = trial_id(self._name, slot.cell.id, slot.repeat, slot.warmup, self._order)
        record = self._execute(slot, trial)
        if record["outcome"] == "failed":
            await_end_with_parent()
        line = trial_line(
            record,
            run=self._name,
            trial=trial,
            cell=slot.cell,
            repeat=slot.repeat,
            warmup=slot.warmup,
            order=self._order,
        )
        self._order += 1
        try:
            self._writer.append_trial(line)
        except StoreError:
            self._observer.unstored(line)
            raise
        self._learn(trial_of(line))
        self._observer.ended(line)
        return line

    def _execute(self, slot: Slot, trial: str) -> dict[str, Any]:
        control, target = self._executor.control(), str(slot.cell.parameters["target"])
        try:
            self._endpoints.local.ensure()
            self._endpoints.ready(slot.cell)
            spec = build_spec(
                slot.cell,
                # To the server: one that was killed is counted there too, and has left no line here.
                f"{trial}.{secrets.token_hex(4)}",
                self._endpoints.url(slot.cell),
                self._endpoints.data(slot.cell),
                timeout_ns=self._run.timeout,
                sample_interval_ns=self._run.sample_interval,
                options=self._endpoints.options(slot.cell),
                ingest=self._endpoints.ingest(slot.cell),
            )
            if not self._interrupts.guard(control):
                control.cancel()
            call = self._executor.run_trial
            if (store := self._endpoints.local.store(target)) is not None:
                store.begin()
            record = completed(run_with_progress(call, spec, control, self._observer.progress))
            self._endpoints.moved(slot.cell, record)
            if record["outcome"] == "failed" and (died := self._endpoints.local.died(target)) is not None:
                record["error"] = {**record["error"], "message": f"{record['error']['message']}; {died}"}
            return record
        except VenturiError as error:
            kind = "unreachable" if error.exit_code == ExitCode.UNREACHABLE else "internal"
            return failed_record(kind, error.message)
        except ValueError as error:
            # The core's error kind for an impossible spec.
            return failed_record("usage", str(error))
        except Exception as error:  # a failure is a row: the sweep goes on, and the reason is kept
            return failed_record("internal", f"{type(error).__name__}: {error}")
        finally:
            self._interrupts.guard(None)

    def _learn(self, trial: Trial) -> None:
        if is_good(trial) and trial.times.interval_ns:
            self._rates.setdefault(trial.cell, []).append(main_rate(trial) or 0.0)

    def last_rate(self, cell: Cell) -> float | None:
        """Payload bytes, or of upserts rows, per second of the cell's last good trial; None without."""
        rates = self._rates.get(cell.id)
        return rates[-1] if rates else None

    def _settled(self, cell: Cell) -> bool:
        """Whether the 95 % interval of the median is narrower than asked for."""
        rates = self._rates.get(cell.id, [])
        if not rates:
            # All trials failed: more repeats would not help.
            return True
        assert self._run.adaptive is not None
        return settled(rates, self._run.adaptive / 100)

    def _notice_silence(self, slot: Slot, line: Mapping[str, Any], more: bool) -> None:
        """Gives up an address that answers no trial, and a cell whose spec asks for something impossible."""
        target = str(slot.cell.parameters["target"])
        error = line["error"] if line["outcome"] == "failed" else None
        if error is not None and error["kind"] == "usage":
            self._abandoned.add(slot.cell.id)
            return
        if error is not None and error["kind"] == "unsupported" and _way(slot.cell) not in self._seen:
            # What a server does not offer it will not offer the next trial either; puts may go well where
            # gets do not.
            self._abandoned.add(_way(slot.cell))
            if more:
                operation = slot.cell.parameters["operation"]
                self._observer.note(
                    "error", f"{target} let no {operation} begin; its other {operation}s are left out"
                )
            return
        # What a stream met may be the cell's own doing, as a message that is too large; a log-in is not.
        of_stream = error is not None and error.get("stream") is not None and error["kind"] != "auth"
        if error is None or error["kind"] not in _ADDRESS_ERRORS or of_stream:
            if error is None:
                self._seen |= {target, _way(slot.cell)}
            self._silent[target] = 0
            return
        if target in self._seen and error["kind"] != "unreachable":
            return
        self._silent[target] = self._silent.get(target, 0) + 1
        if self._silent[target] < (_TRIES_ONCE_SEEN if target in self._seen else _TRIES):
            return
        self._abandoned.add(target)
        if more:
            never = "never answered" if error["kind"] == "unreachable" else "let no trial begin"
            how = "answers no more" if target in self._seen else never
            self._observer.note("error", f"{target} {how}; its other trials are left out")
        if error["kind"] == "unreachable":
            self._observer.note("hint", start_a_server(target))


def _way(cell: Cell) -> str:
    """An operation at an address."""
    return f"{cell.parameters['operation']} {cell.parameters['target']}"
