"""Server processes that never outlive the test process; their logs are kept when a test fails."""

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.services.places import KEPT_LOGS, REPOSITORY
from tests.support.services.requirements import ServiceUnavailable

_alive: "set[ServiceProcess]" = set()


class ServiceProcess:
    """One server process with its directory, process group and log."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = Path(tempfile.mkdtemp(prefix=f"anchormoe-{name}-"))
        self.log = self.directory / f"{name}.log"
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._killer: Sequence[str] = ()
        _alive.add(self)

    @property
    def pid(self) -> int | None:
        """None when the server is not running (never started, stopped, or died by itself)."""
        return self._server.pid if self._server is not None and self._server.poll() is None else None

    def launch(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, killer: Sequence[str] = ()
    ) -> None:
        """`killer` is a command that kills what a signal to our child cannot reach, such as a container."""
        if self.pid is not None:
            raise RuntimeError(f"{self.name} is already running as process {self.pid}")
        with self.log.open("ab") as log:
            self._server = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # its own group, so that Ctrl-C reaches pytest first
            )
        self._killer = killer
        self._guard = _start_guard(self._server.pid, killer)

    def wait_until(self, ready: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self.pid is None:
                raise ServiceUnavailable(f"{self.name} ended while starting; the end of its log:\n{self.log_end()}")
            if time.monotonic() > deadline:
                raise ServiceUnavailable(
                    f"{self.name} did not answer within {timeout_s:g} s; the end of its log:\n{self.log_end()}"
                )
            time.sleep(0.05)

    def end(self, with_signal: signal.Signals, timeout_s: float = 30) -> None:
        """Signals the whole group, waits, and kills what is left after the timeout."""
        if self._server is not None:
            self._signal(with_signal)
            try:
                self._server.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._server.wait()
            self._server = None
        self._stop_guard()

    def close(self) -> None:
        """Kills the server and removes its directory; the object cannot be used afterwards."""
        self.end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
        _alive.discard(self)

    def log_end(self, lines: int = 15) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, with_signal: signal.Signals) -> None:
        if self._server is None or self._server.poll() is not None:
            return
        if with_signal is signal.SIGKILL and self._killer:
            subprocess.run(self._killer, check=False, capture_output=True)
        with contextlib.suppress(ProcessLookupError):  # it may end by itself between the check and the signal
            os.killpg(self._server.pid, with_signal)

    def _stop_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


class StartedService:
    """What a server of the test's own can do beside starting. Slow: call it with `asyncio.to_thread` in async tests."""

    _process: ServiceProcess

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._process.end(signal.SIGTERM)

    def kill(self) -> None:
        self._process.end(signal.SIGKILL)

    def restart(self) -> None:
        """After `kill` or `stop`, or instead of `stop` and `start`; same ports, same directory."""
        self.stop()
        self.start()

    def close(self) -> None:
        self._process.close()


def keep_logs(test: str) -> list[str]:
    """Copies the log of every running service to a folder named after the test; returns the copies' paths."""
    folder = KEPT_LOGS / re.sub(r"[^\w.-]+", "_", test)[-150:]
    kept = []
    for service in [service for service in _alive if service.log.exists()]:
        folder.mkdir(parents=True, exist_ok=True)
        copy = shutil.copy(service.log, folder / f"{service.directory.name}.log")
        kept.append(str(Path(copy).relative_to(REPOSITORY)))
    return sorted(kept)


def _start_guard(group: int, killer: Sequence[str]) -> subprocess.Popen[bytes]:
    """A shell that kills the process group when the test process has ended, in whatever way.

    Its standard input is a pipe whose other end only the test process has: `read` returns when that process ends, also
    by SIGKILL or `os._exit`, where no atexit function runs.
    """
    script = 'read _; "$@"; kill -9 "-$0"'  # dash's kill does not understand "--"
    return subprocess.Popen(
        ["sh", "-c", script, str(group), *(killer or ["true"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@atexit.register
def _close_all() -> None:
    for service in list(_alive):
        service.close()
