"""Agents as processes, started again whenever they end, as systemd or Kubernetes would."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent.chaos.errors import ChaosError
from agent.chaos.waiting import until
from connectors.failpoints import VARIABLE

_LOOK_EVERY_S = 0.1
_WRONG_SETTINGS = 2
_TAKEN = b"partition taken"
REFUSED = re.compile(rb"has another owner|commit refused|no owner holds")
"""What an agent says that wanted to write and may not any more."""


@dataclass(slots=True)
class AgentProcess:
    """`anchormoe-agent run`. `wanted` is whether its end is to be followed by a new start."""

    name: str
    plant: Path
    log: Path
    wanted: bool = True
    starts: int = 0
    started_s: float = 0.0
    _log_at_start: int = 0
    _process: "subprocess.Popen[bytes] | None" = field(default=None)

    def start(self, *, failpoint: str | None = None) -> None:
        command = [sys.executable, "-m", "agent.cli.main", "run", "--config", str(self.plant)]
        armed = {VARIABLE: failpoint} if failpoint else {}
        environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self._log_at_start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={"OMP_NUM_THREADS": "1", **environ, **armed},
                start_new_session=True,  # Ctrl-C is for the trial, which ends its agents itself
            )
        self.starts, self.started_s = self.starts + 1, time.monotonic()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def working(self) -> bool:
        """Has taken a partition since its last start."""
        return self.running and _TAKEN in self.said(self._log_at_start)

    @property
    def takings(self) -> int:
        """How often it has taken a partition, over all its lives."""
        return self.said().count(_TAKEN)

    def said(self, since: int = 0) -> bytes:
        """Its log from a position on."""
        if not self.log.exists():
            return b""
        with self.log.open("rb") as log:
            log.seek(since)
            return log.read()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    async def terminate(self, timeout_s: float = 60) -> int:
        """SIGTERM, and the exit code; one that does not end in time is killed, and that is an error."""
        self.signal(signal.SIGTERM)
        if not await until(lambda: not self.running, timeout_s):
            self.kill()
            raise ChaosError(f"{self.name} did not end within {timeout_s:g} s of SIGTERM")
        return self.returncode or 0


class AgentFleet:
    """The agents of one trial; their logs lie in `directory`."""

    def __init__(self, plant: Path, directory: Path, count: int) -> None:
        self._plant, self._directory = plant, directory
        self.agents: list[AgentProcess] = []
        for _ in range(count):
            self.add()

    def __iter__(self) -> Iterator[AgentProcess]:
        return iter(self.agents)

    def add(self) -> AgentProcess:
        name = f"agent-{len(self.agents) + 1}"
        self.agents.append(AgentProcess(name, self._plant, self._directory / f"{name}.log"))
        return self.agents[-1]

    @property
    def living(self) -> list[AgentProcess]:
        return [agent for agent in self.agents if agent.wanted]

    async def supervise(self) -> None:
        """For ever. Wrong settings are no accident: starting again would not help."""
        while True:
            for agent in self.living:
                if not agent.running:
                    if agent.returncode == _WRONG_SETTINGS:
                        raise ChaosError(f"{agent.name} refuses its settings:\n{_end_of(agent)}")
                    agent.start()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def settled(self, timeout_s: float) -> None:
        """Until every agent works."""
        if not await until(lambda: all(agent.working for agent in self.living), timeout_s):
            idle = next((agent for agent in self.living if not agent.working), self.living[0])
            raise ChaosError(f"{idle.name} has no partition after {timeout_s:g} s:\n{_end_of(idle)}")

    async def retire(self) -> None:
        """An orderly end of all."""
        for agent in self.agents:
            agent.wanted = False
        await asyncio.gather(*(agent.terminate() for agent in self.agents))

    def close(self) -> None:
        for agent in self.agents:
            agent.wanted = False
            agent.signal(signal.SIGCONT)
            agent.kill()


def _end_of(agent: AgentProcess) -> str:
    return "\n".join(agent.said().decode(errors="replace").splitlines()[-12:])
