"""Starts agents as forks of a process that has their libraries loaded already: most of a start is importing torch.

For rounds in which the number of faults matters and not how long a start takes. What a fork inherits is code: it reads
its settings, loads its bundle and opens its connections itself, and dies like any process.
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import orjson

from agent.chaos.agents import RunningProcess
from tests.support.agent_process import BUNDLE

_LOOK_EVERY_S = 0.02
_TIMEOUT_S = 600.0


class Nursery:
    """`launch` is what `agent.chaos.agents.AgentProcess` needs; blocks for the moment that a fork takes."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self._started: list[int] = []
        self._codes: dict[int, int] = {}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def launch(self, arguments: Sequence[str], log: Path, environ: Mapping[str, str]) -> RunningProcess:
        """Raises OSError when the nursery has died."""
        assert self._server.stdin is not None
        request = {"arguments": list(arguments), "log": str(log), "environ": dict(environ)}
        with self._changed:
            before = len(self._started)
            self._server.stdin.write(orjson.dumps(request) + b"\n")
            self._server.stdin.flush()
            if not self._changed.wait_for(lambda: len(self._started) > before, _TIMEOUT_S):
                raise OSError("the nursery does not start an agent")
            return _Fork(self, self._started[-1])

    def code(self, pid: int) -> int | None:
        return self._codes.get(pid)

    def wait(self, pid: int) -> int:
        with self._changed:
            self._changed.wait_for(lambda: pid in self._codes, _TIMEOUT_S)
            return self._codes[pid]

    def close(self) -> None:
        """Its forks die with it."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.wait()
        self._listener.join()
        self._server.stdout.close()

    def _listen(self) -> None:
        assert self._server.stdout is not None
        for line in self._server.stdout:
            told = orjson.loads(line)
            with self._changed:
                if "code" in told:
                    self._codes[told["pid"]] = told["code"]
                else:
                    self._started.append(told["pid"])
                self._changed.notify_all()


class _Fork:
    """An agent that the nursery has started."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid = nursery, pid

    def poll(self) -> int | None:
        return self._nursery.code(self.pid)

    def wait(self) -> int:
        return self._nursery.wait(self.pid)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def serve() -> None:
    """Until its input ends."""
    _load_libraries()
    children: set[int] = set()
    while True:
        readable, _, _ = select.select([0], [], [], _LOOK_EVERY_S)
        if readable:
            line = sys.stdin.buffer.readline()
            if not line:
                break
            children.add(_fork(orjson.loads(line)))
        for pid in list(children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                children.discard(pid)
                _tell({"pid": pid, "code": os.waitstatus_to_exitcode(status)})
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _load_libraries() -> None:
    from anchormoe import Predictor

    for module in ("agent.app", "agent.cli.main", "agent.cli.run", "agent.terminal.views"):
        importlib.import_module(module)
    Predictor.load(BUNDLE)
    gc.freeze()


def _fork(request: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        _become_agent(request)
    _tell({"pid": pid})
    return pid


def _become_agent(request: Mapping[str, Any]) -> NoReturn:
    code: object = 1
    try:
        os.setsid()
        _redirect(Path(request["log"]))
        os.environ.clear()
        os.environ.update(request["environ"])
        sys.argv = ["anchormoe-agent", *request["arguments"]]
        from agent.cli.main import main

        main()
        code = 0
    except SystemExit as left:
        code = left.code
    except BaseException:  # as the interpreter would
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _redirect(log: Path) -> None:
    null, out = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for here, there in ((null, 0), (out, 1), (out, 2)):
        os.dup2(here, there)


def _tell(content: Mapping[str, int]) -> None:
    sys.stdout.buffer.write(orjson.dumps(content) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    serve()
