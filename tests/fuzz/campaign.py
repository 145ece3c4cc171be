"""Divides a number of inputs among doors and worker processes, and watches that every worker goes on."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Input, Regression, read, regression_files
from tests.fuzz.ledger import Ledger, Line
from tests.fuzz.runner import ChunkResult

SHARES = {
    "wide": 0.33,
    "narrow": 0.2,
    "chunked": 0.17,
    "binary": 0.1,
    "protobuf": 0.01,
    "json-schema": 0.01,
    "influx": 0.02,
    "telegraf": 0.01,
    "sparkplug": 0.02,
    "avro": 0.05,
    "json-lines": 0.06,
    "alarm-inputs": 0.03,
    "alarm-events": 0.012,
    "kafka-batches": 0.01,
    "stored-data": 0.01,
    "http-requests": 0.004,
    "webhook-answers": 0.002,
    "settings": 0.001,
    "bundles": 0.001,
}
"""of all inputs; a door that costs more per input gets fewer. In the order in which they are run."""
CHUNK = {"http-requests": 2_000, "webhook-answers": 1_000, "settings": 250, "bundles": 100}
_CHUNK = 20_000
_TRACED_CHUNK = 2_000
_SILENT_S = 600.0
"""Without a word from a worker for this long it is ended; its own limit, in processor time, is far shorter."""


@dataclass(frozen=True, slots=True)
class Task:
    door: str
    variant: str
    seed: int
    number: int
    count: int
    trace: bool = False


@dataclass(slots=True)
class _Worker:
    name: str
    process: Any
    connection: Connection
    task: Task | None = None
    heard_s: float = field(default_factory=time.monotonic)


def plan(ledger: Ledger, doors: Mapping[str, Sequence[str]], records: int, seed: int) -> Iterator[Task]:
    """What is still to do. `doors`: the variants of each. The first chunk of a door traces memory."""
    shares = {door: SHARES[door] for door in SHARES if door in doors}
    whole = sum(shares.values())
    for door, share in shares.items():
        left, number = round(records * share / whole) - ledger.records(door, seed), ledger.next_number(door, seed)
        variants = doors[door]
        size = max(min(CHUNK.get(door, _CHUNK), -(-round(records * share / whole) // len(variants))), 1)
        while left > 0:
            trace = number == 0 and not any(line.door == door for line in ledger.lines)
            count = min(size, left, _TRACED_CHUNK if trace else size)
            yield Task(door, variants[number % len(variants)], seed, number, count, trace)
            number, left = number + 1, left - count


def run(
    tasks: Sequence[Task],
    ledger: Ledger,
    *,
    workers: int,
    regressions: Path,
    report: Callable[[int, Line | None], None],
    found: Callable[[Regression], None],
) -> None:
    """`report` is called with the inputs done since the last time, and with every finished chunk."""
    context = multiprocessing.get_context("spawn")
    waiting, running, started = list(tasks), list[_Worker](), 0
    while waiting or running:
        while waiting and len(running) < workers:
            started += 1
            running.append(_start(context, f"{started}", regressions))
            running[-1].task = waiting.pop(0)
            running[-1].connection.send(running[-1].task)
        wait([worker.connection for worker in running], timeout=5.0)
        for worker in list(running):
            line = _listen(worker, report, found)
            if line is None:
                continue
            ledger.append(line)
            report(0, line)
            worker.task = waiting.pop(0) if waiting and worker.process.is_alive() else None
            if worker.task is not None:
                worker.connection.send(worker.task)
            else:
                _end(worker)
                running.remove(worker)


def _start(context: Any, name: str, regressions: Path) -> _Worker:
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, regressions), daemon=True)
    process.start()
    theirs.close()
    return _Worker(name, process, ours)


def _listen(
    worker: _Worker, report: Callable[[int, Line | None], None], found: Callable[[Regression], None]
) -> Line | None:
    """The line of a chunk that has ended, in one way or another."""
    task = worker.task
    assert task is not None
    facts = {"seed": task.seed, "number": task.number, "worker": worker.name}
    try:
        while worker.connection.poll():
            worker.heard_s = time.monotonic()
            message = worker.connection.recv()
            if isinstance(message, ChunkResult):
                for finding in message.findings.values():
                    found(finding.regression)
                return Line.of(message, seed=task.seed, number=task.number, worker=worker.name)
            report(message, None)
    except (EOFError, OSError):
        worker.process.join()
        why = f"the process ended with {worker.process.exitcode}"
        return Line.lost(task.door, task.variant, kind="crash", why=why, **facts)  # type: ignore[arg-type]
    if time.monotonic() - worker.heard_s > _SILENT_S:
        worker.process.kill()
        worker.process.join()
        return Line.lost(task.door, task.variant, kind="hang", why="stopped by the watchdog", **facts)  # type: ignore[arg-type]
    return None


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.join(timeout=10)
    if worker.process.is_alive():
        worker.process.kill()


def _work(connection: Connection, regressions: Path) -> None:
    """In a process of its own, chunk after chunk until the other side closes."""
    from tests.fuzz.doors import all_doors
    from tests.fuzz.quiet import quiet
    from tests.fuzz.runner import run_chunk

    doors, first = all_doors(), known_inputs(regressions)
    known = {door: set[str]() for door in doors}
    try:
        with quiet():
            while True:
                task: Task = connection.recv()
                result = run_chunk(
                    doors[task.door],
                    task.variant,
                    task.seed * 1_000_003 + task.number,
                    task.count,
                    first=first.get((task.door, task.variant), []),
                    known=known[task.door],
                    progress=connection.send,
                    trace=task.trace,
                )
                known[task.door] |= result.findings.keys()
                connection.send(result)
    except (EOFError, OSError, KeyboardInterrupt):
        return


def known_inputs(directory: Path) -> dict[tuple[str, str], list[Input]]:
    """The inputs of past failures by door and variant: they are the first seeds."""
    known: dict[tuple[str, str], list[Input]] = {}
    for path in regression_files(directory):
        regression = read(path)
        known.setdefault((regression.door, regression.variant), []).extend(regression.inputs)
    return known
