"""Agents as processes, restarted whenever they exit, as systemd or Kubernetes would.

What they do is read from their logs: JSON lines, of which those with an `event_code` (`agent.logs`) are for programs.
"""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import orjson

from agent.logs import EVENT_CODE, PARTITION_TAKEN, WRITE_REFUSED
from connectors.failpoints import VARIABLE

_CHECK_EVERY_S = 0.05
_SUPERVISE_EVERY_S = 0.1
_WRONG_SETTINGS = 2
_LOG_LINES_SHOWN = 12


class ChaosError(Exception):
    """The experiment cannot go on: an agent or a service does not come back, or a fault has no effect."""


class RunningProcess(Protocol):
    """As `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def send_signal(self, sig: int) -> None: ...


class Launch(Protocol):
    """Starts `anchormoe-agent` with these arguments and exactly this environment; its output is added to the log."""

    def __call__(self, arguments: Sequence[str], log: Path, environ: Mapping[str, str]) -> RunningProcess: ...


def start_anew(
    arguments: Sequence[str], log: Path, environ: Mapping[str, str], *, source: Path | None = None
) -> RunningProcess:
    """As a supervisor does. `source` is the directory of another version's packages."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "agent.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=source,  # with -m, the packages of the working directory come first
            env=dict(environ),
            start_new_session=True,  # Ctrl-C is for the experiment, which ends its agents itself
        )


async def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Polls, because processes and their logs cannot be awaited. False when the time ran out."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_CHECK_EVERY_S)
    return True


def event_codes(log: bytes) -> set[str]:
    """All codes in a log."""
    return {str(event[EVENT_CODE]) for event in _coded_events(log)}


def events_with_code(log: bytes, code: str) -> Iterator[Mapping[str, Any]]:
    """The log lines with this event code."""
    return (event for event in _coded_events(log) if event[EVENT_CODE] == code)


def _coded_events(log: bytes) -> Iterator[Mapping[str, Any]]:
    """The log lines that have an event code; lines that are not whole JSON objects are skipped."""
    marker = f'"{EVENT_CODE}"'.encode()
    for line in log.splitlines():
        if marker in line:
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if EVENT_CODE in event:
                yield event


@dataclass(slots=True)
class AgentProcess:
    """`anchormoe-agent run` (or another `command`) with JSON logs. While `keep_running`, it is restarted after its end.

    `source` is the directory of another version's packages, such as a release that is being replaced; those are
    always started anew.
    """

    name: str
    config: Path
    log: Path
    command: str = "run"
    source: Path | None = None
    launch: Launch = start_anew
    keep_running: bool = True
    starts: int = 0
    started_s: float = 0.0
    _log_at_start: int = 0
    _process: RunningProcess | None = field(default=None)

    def start(self, *, failpoint: str | None = None) -> None:
        armed = {VARIABLE: failpoint} if failpoint else {}
        inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
        environ = {"OMP_NUM_THREADS": "1", **inherited, **armed, **self._packages()}
        arguments = [self.command, "--config", str(self.config)]
        self._log_at_start = self.log.stat().st_size if self.log.exists() else 0
        if self.source is None:
            self._process = self.launch(arguments, self.log, environ)
        else:
            self._process = start_anew(arguments, self.log, environ, source=self.source)
        self.starts, self.started_s = self.starts + 1, time.monotonic()

    def _packages(self) -> dict[str, str]:
        return {} if self.source is None else {"PYTHONPATH": str(self.source)}

    @property
    def resident_mb(self) -> float:
        """0 when it does not run."""
        if self._process is None or not self.running:
            return 0.0
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return round(pages * resource.getpagesize() / 1e6, 2)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def has_partition(self) -> bool:
        """Whether it has taken a partition since its last start."""
        return self.running and any(events_with_code(self.log_since_start, PARTITION_TAKEN))

    @property
    def partitions_taken(self) -> int:
        """How often it has taken a partition, since its first start."""
        return sum(1 for _ in events_with_code(self.read_log(), PARTITION_TAKEN))

    def refusal(self, since: int) -> str | None:
        """Why a write or commit of it was refused, from a position of its log on; None when none was."""
        refused = next(events_with_code(self.read_log(since), WRITE_REFUSED), None)
        return None if refused is None else str(refused.get("reason", ""))

    def read_log(self, since: int = 0) -> bytes:
        """From a position on."""
        if not self.log.exists():
            return b""
        with self.log.open("rb") as log:
            log.seek(since)
            return log.read()

    @property
    def log_since_start(self) -> bytes:
        """What its last start has logged."""
        return self.read_log(self._log_at_start)

    def log_tail(self) -> str:
        return "\n".join(self.read_log().decode(errors="replace").splitlines()[-_LOG_LINES_SHOWN:])

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    async def terminate(self, timeout_s: float = 60) -> int:
        """SIGTERM, then the exit code. One that does not exit in time is killed, and ChaosError is raised."""
        self.signal(signal.SIGTERM)
        if not await wait_until(lambda: not self.running, timeout_s):
            self.kill()
            raise ChaosError(f"{self.name} did not exit within {timeout_s:g} s of SIGTERM:\n{self.log_tail()}")
        return self.returncode or 0


class AgentFleet:
    """The agents of one experiment; their logs are in `directory`."""

    def __init__(self, config: Path, directory: Path, count: int, launch: Launch = start_anew) -> None:
        self._config, self._directory, self._launch = config, directory, launch
        self.agents: list[AgentProcess] = []
        for _ in range(count):
            self.add()

    def __iter__(self) -> Iterator[AgentProcess]:
        return iter(self.agents)

    def add(self, *, keep_running: bool = True) -> AgentProcess:
        name = f"agent-{len(self.agents) + 1}"
        log = self._directory / f"{name}.log"
        self.agents.append(AgentProcess(name, self._config, log, launch=self._launch, keep_running=keep_running))
        return self.agents[-1]

    @property
    def partitions_taken(self) -> int:
        """By all agents together, since their first starts."""
        return sum(agent.partitions_taken for agent in self.agents)

    @property
    def kept_running(self) -> list[AgentProcess]:
        return [agent for agent in self.agents if agent.keep_running]

    async def supervise(self) -> None:
        """Restarts agents for ever; wrong settings are an error, because a restart would not help."""
        while True:
            for agent in self.kept_running:
                if not agent.running:
                    if agent.returncode == _WRONG_SETTINGS:
                        raise ChaosError(f"{agent.name} exited because of its settings:\n{agent.log_tail()}")
                    agent.start()
            await asyncio.sleep(_SUPERVISE_EVERY_S)

    async def wait_until_assigned(self, timeout_s: float, *, at_least: int | None = None) -> None:
        """Until so many agents have a partition; every one by default."""
        wanted = len(self.kept_running) if at_least is None else min(at_least, len(self.kept_running))
        if not await wait_until(lambda: self._assigned() >= wanted, timeout_s):
            idle = next((agent for agent in self.kept_running if not agent.has_partition), self.kept_running[0])
            raise ChaosError(f"{idle.name} has no partition after {timeout_s:g} s:\n{idle.log_tail()}")

    def _assigned(self) -> int:
        return sum(agent.has_partition for agent in self.kept_running)

    def log_tails(self) -> str:
        """The end of every agent's log."""
        return "\n".join(f"{agent.name}:\n{agent.log_tail()}" for agent in self.agents)

    async def stop(self) -> None:
        """SIGTERM to all agents; returns when all have exited."""
        for agent in self.agents:
            agent.keep_running = False
        try:
            async with asyncio.TaskGroup() as group:
                for agent in self.agents:
                    group.create_task(agent.terminate())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    def kill(self) -> None:
        for agent in self.agents:
            agent.keep_running = False
            agent.signal(signal.SIGCONT)
            agent.kill()
