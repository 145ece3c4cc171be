"""Servers that form one system: started, stopped, killed and paused by their number."""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from tests.support.services.processes import ServiceProcess
from tests.support.services.requirements import ServiceUnavailable

START_TIMEOUT_S = 120
Found = TypeVar("Found")


class Members(ABC):
    """Every call can be repeated: it stops only servers that are running and starts only those that are not.

    All calls block: from an async test with tasks of its own, use `asyncio.to_thread`.
    """

    def __init__(self, processes: Mapping[int, ServiceProcess]) -> None:
        self._processes = dict(processes)
        self._paused: set[int] = set()

    @property
    def nodes(self) -> list[int]:
        return list(self._processes)

    @property
    def running(self) -> list[int]:
        """The nodes that can answer: they have not ended and are not paused."""
        return [node for node in self.nodes if self.pid(node) is not None and node not in self._paused]

    def pid(self, node: int) -> int | None:
        return self._processes[node].pid

    def start(self, *nodes: int) -> None:
        """Starts the given nodes, or all that are not running, on their old ports and data."""
        down = [node for node in nodes or self.nodes if self.pid(node) is None]
        for node in down:
            self._launch(node)
        for node in down:
            self._processes[node].wait_until(partial(self._answers, node), START_TIMEOUT_S)

    def stop(self, *nodes: int) -> None:
        """SIGTERM, one node after the other, so that each can hand over to those that are left."""
        self.resume(*nodes)
        for node in nodes:
            self._processes[node].end(signal.SIGTERM)

    def kill(self, *nodes: int) -> None:
        """SIGKILL."""
        for node in nodes:
            self._processes[node].end(signal.SIGKILL)
            self._paused.discard(node)

    def pause(self, *nodes: int) -> None:
        """SIGSTOP: connections stay open, and nothing is answered."""
        for node in nodes:
            self._signal(node, signal.SIGSTOP)
            self._paused.add(node)

    def resume(self, *nodes: int) -> None:
        """Resumes the given nodes, or all that are paused."""
        for node in set(nodes or self.nodes) & self._paused:
            self._paused.discard(node)
            if self.pid(node) is not None:
                self._signal(node, signal.SIGCONT)

    def restore(self) -> None:
        """Resumes and starts the nodes that a test has left paused or down, and waits until all are ready."""
        self.resume()
        self.start()

    def close(self) -> None:
        for process in self._processes.values():
            process.close()

    @abstractmethod
    def _launch(self, node: int) -> None: ...

    @abstractmethod
    def _answers(self, node: int) -> bool: ...

    def _signal(self, node: int, with_signal: signal.Signals) -> None:
        pid = self.pid(node)
        if pid is None:
            raise RuntimeError(f"{self._processes[node].name} is not running")
        os.killpg(pid, with_signal)


def wait_for(condition: Callable[[], Found | None], what: str, timeout_s: float = 120) -> Found:
    """The first true result. Raises ServiceUnavailable after the timeout; `what` says what was expected."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise ServiceUnavailable(f"not reached within {timeout_s:g} s: {what}")
        time.sleep(0.05)
    return found
