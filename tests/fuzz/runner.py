"""Runs one chunk of inputs through one door: counts, finds the culprits of crashes, shrinks what fails."""

import gc
import os
import resource
import signal
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz.cases import Door, Input, Outcome, Regression, Session, Violation
from tests.fuzz.shrink import shrink

SLOW_S = 5.0
"""Of process time; a batch that takes longer is a hang, because the agent would lose its place in the group."""
_STOP_S = 30.0
_MAX_POOL = 600
_MAX_POOLED_BYTES = 16_384
_PACKAGES = ("agent", "anchormoe", "connectors")
_PAGE = os.sysconf("SC_PAGE_SIZE")

COUNTED = ("crash", "hang", "silent", "both", "internal")
"""Kinds with a column of their own; everything else is in `other`."""


class Stopped(BaseException):
    """Not an Exception: nothing in the product may catch it."""


@dataclass(slots=True)
class Finding:
    """A failure after shrinking; `times` it was seen in the chunk."""

    signature: str
    regression: Regression
    times: int = 1


@dataclass(slots=True)
class ChunkResult:
    door: str
    variant: str
    seed: int
    inputs: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    failures: Counter[str] = field(default_factory=Counter)
    """violations by kind"""
    findings: dict[str, Finding] = field(default_factory=dict)
    traits: int = 0
    slowest_s: float = 0.0
    seconds: float = 0.0
    process_s: float = 0.0
    rss_before: int = 0
    rss_after: int = 0
    rss_peak: int = 0
    traced_growth: int | None = None


def run_chunk(
    door: Door,
    variant: str,
    seed: int,
    count: int,
    *,
    first: Sequence[Input] = (),
    known: Container[str] = (),
    progress: Callable[[int], None] = lambda _: None,
    trace: bool = False,
) -> ChunkResult:
    """`first` are earlier failures: they come first and are mutated further. `trace` measures Python's memory.

    What has a signature in `known` is counted, but not shrunk again.
    """
    return _Chunk(door, variant, seed, known, trace=trace).run(count, list(first), progress)


def replay(door: Door, regression: Regression) -> list[Violation]:
    """All its inputs together on a session of its own; a crash is a violation too."""
    chunk = _Chunk(door, regression.variant, 0, (), trace=False)
    return chunk.attempt(regression.inputs).violations


class _Chunk:
    def __init__(self, door: Door, variant: str, seed: int, known: Container[str], *, trace: bool) -> None:
        self._door, self._known, self._trace = door, known, trace
        self._result = ChunkResult(door.name, variant, seed)
        self._variant = variant

    def run(self, count: int, pool: list[Input], progress: Callable[[int], None]) -> ChunkResult:
        result, rng = self._result, Random(f"{self._door.name}/{self._variant}/{self._result.seed}")
        seen: set[Hashable] = set()
        begun_s, begun_process_s = time.monotonic(), time.process_time()
        session, history, waiting = self._door.open(self._variant), list[Input](), list(pool)
        pool = [each for each in pool if len(each.value or b"") <= _MAX_POOLED_BYTES]
        memory = _Memory(self._trace)
        while result.inputs < count:
            size = min(self._door.batch, count - result.inputs)
            batch, waiting = (waiting[:size], waiting[size:]) if waiting else (session.generate(rng, size, pool), [])
            outcome = self._feed(session, batch)
            if outcome is None or outcome.violations:
                _close(session)
                self._examine(history, batch, outcome)
                session, history = self._door.open(self._variant), []
            else:
                history += batch
            if outcome is not None:
                result.outcome.add(outcome)
                for index, trait in outcome.traits:
                    if trait not in seen:
                        seen.add(trait)
                        if len(pool) < _MAX_POOL and len(batch[index].value or b"") <= _MAX_POOLED_BYTES:
                            pool.append(batch[index])
            if len(history) >= self._door.renew_after:
                _close(session)
                session, history = self._door.open(self._variant), []
            result.inputs += len(batch)
            memory.look(result.inputs / count)
            progress(len(batch))
        _close(session)
        result.outcome.violations.clear()
        result.traits = len(seen)
        result.seconds, result.process_s = time.monotonic() - begun_s, time.process_time() - begun_process_s
        memory.report(result)
        return result

    def attempt(self, inputs: Sequence[Input]) -> Outcome:
        """On a new session; a crash is a violation."""
        session = self._door.open(self._variant)
        try:
            with _limit_time():
                begun_s = time.process_time()
                outcome = session.feed(inputs)
                took_s = time.process_time() - begun_s
            if took_s > SLOW_S:
                outcome.violate("hang", "slow", *range(len(inputs)))
            return outcome
        except Stopped:
            return Outcome(violations=[Violation("hang", "stopped", tuple(range(len(inputs))))])
        except Exception as error:  # any exception is what we look for
            return Outcome(violations=[Violation("crash", crash_site(error), tuple(range(len(inputs))))])
        finally:
            _close(session)

    def _feed(self, session: Session, batch: Sequence[Input]) -> Outcome | None:
        """None for a crash."""
        begun_s = time.process_time()
        try:
            with _limit_time():
                outcome = session.feed(batch)
        except (Exception, Stopped):
            return None
        finally:
            took_s = time.process_time() - begun_s
            self._result.slowest_s = max(self._result.slowest_s, took_s)
        if took_s > SLOW_S:
            outcome.violate("hang", "slow", *range(len(batch)))
        return outcome

    def _examine(self, history: list[Input], batch: Sequence[Input], outcome: Outcome | None) -> None:
        if outcome is not None:
            for violation in outcome.violations:
                concerned = [batch[index] for index in violation.inputs] or list(batch)
                self._found(violation, concerned, list(batch), history)
            return
        if not self._find_culprits(batch):  # it needs what came before
            alone = self.attempt([*history, *batch])
            for violation in alone.violations or [Violation("crash", "not seen again", ())]:
                self._found(violation, list(batch), list(batch), history)

    def _find_culprits(self, inputs: Sequence[Input]) -> int:
        """Halves that fail are halved again; what does not fail is counted as usual. Returns how many were found."""
        outcome = self.attempt(inputs)
        crashed = [each for each in outcome.violations if each.kind in ("crash", "hang")]
        if not crashed:
            self._result.outcome.add(outcome)
            for violation in outcome.violations:
                self._found(violation, [inputs[index] for index in violation.inputs] or list(inputs), list(inputs), [])
            return 0
        if len(inputs) == 1:
            self._found(crashed[0], list(inputs), list(inputs), [])
            return 1
        half = len(inputs) // 2
        found = self._find_culprits(inputs[:half]) + self._find_culprits(inputs[half:])
        if not found:
            self._found(crashed[0], list(inputs), list(inputs), [])
        return max(found, 1)

    def _found(self, violation: Violation, concerned: list[Input], batch: list[Input], history: list[Input]) -> None:
        self._result.failures[violation.kind] += 1
        known = self._result.findings.get(violation.signature)
        if known is not None:
            known.times += 1
            return
        smallest = concerned
        if violation.signature not in self._known:
            smallest = self._smallest(violation.signature, [concerned, batch, [*history, *batch]])
        regression = Regression(self._door.name, self._variant, violation.signature, tuple(smallest))
        self._result.findings[violation.signature] = Finding(violation.signature, regression)

    def _smallest(self, signature: str, candidates: Sequence[list[Input]]) -> list[Input]:
        def fails(inputs: Sequence[Input]) -> bool:
            return any(each.signature == signature for each in self.attempt(inputs).violations)

        for candidate in candidates:
            if candidate and fails(candidate):
                return shrink(candidate, fails)
        return candidates[-1]


def crash_site(error: BaseException) -> str:
    """The kind of the exception and the last place in our own code."""
    if isinstance(error, BaseExceptionGroup):
        return crash_site(error.exceptions[0])
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if any(f"/{package}/" in frame.filename for package in _PACKAGES)]
    last = next(reversed(own or frames), None)
    where = "?" if last is None else f"{'/'.join(Path(last.filename).parts[-2:])} in {last.name}"
    return f"{type(error).__name__} at {where}"


@contextmanager
def _limit_time() -> Iterator[None]:
    """Raises `Stopped` after so much processor time, whatever other processes use."""

    def stop(_: int, __: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _STOP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _close(session: Session) -> None:
    with suppress(Exception):  # after a crash there may be nothing left to close
        session.close()


class _Memory:
    """Resident and traced memory; growth counts from where half of the inputs are done."""

    def __init__(self, trace: bool) -> None:
        self._before, self._trace = resident(), trace
        self._half: int | None = None
        self._growth: int | None = None
        if trace:
            tracemalloc.start()

    def look(self, done: float) -> None:
        if not self._trace or (self._half is not None and done < 1):
            return
        if done >= 0.5:
            gc.collect()
            traced = tracemalloc.get_traced_memory()[0]
            if self._half is None:
                self._half = traced
            else:
                self._growth = traced - self._half

    def report(self, result: ChunkResult) -> None:
        if self._trace:
            tracemalloc.stop()
        result.traced_growth = self._growth
        result.rss_before, result.rss_after = self._before, resident()
        result.rss_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE
