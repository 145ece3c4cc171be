"""README's commands, in their order, on a real broker and a real Redis: what a new user types works."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from tests.support.agent_process import read_topic
from tests.support.services.kafka import KafkaBroker
from tests.support.services.redis import RedisServer

ROOT = Path(__file__).parents[2]
LOCAL_BROKER, LOCAL_REDIS = "localhost:9092", "redis://localhost:6379/0"
ENDLESS = ("run", "alarms", "simulate stream", "tail", "page")
"""Commands that go on until Ctrl-C; README gives each a terminal of its own."""


def commands(heading: str) -> list[str]:
    """The `anchormoe-agent` lines in the section's shell blocks, without their comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    [body] = [part for part in section if part.startswith(heading)]
    lines = "".join(re.findall(r"```sh\n(.*?)```", body, re.DOTALL)).splitlines()
    return [line for line in lines if line.startswith("anchormoe-agent ")]


class Shell:
    """A new user's directory: a copy of what README's commands name, and the two services where README has its own."""

    def __init__(self, directory: Path, kafka: KafkaBroker, redis: RedisServer) -> None:
        self.directory, self.bootstrap = directory, kafka.bootstrap
        shutil.copytree(ROOT / "configs", directory / "configs")
        for plant in (directory / "configs").glob("*.yaml"):
            plant.write_text(plant.read_text().replace(LOCAL_BROKER, kafka.bootstrap))
        self.environ = os.environ | {
            "ANCHORMOE_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "ANCHORMOE_REDIS_URL": redis.url,
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
        }

    def run(self, line: str) -> str:
        done = self.attempt(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_until(self, line: str, word: str, timeout_s: float = 120) -> None:
        """Again and again until it says the word."""
        end = time.monotonic() + timeout_s
        while word not in (said := self.run(line)):
            assert time.monotonic() < end, f"{line}\n{said}"
            time.sleep(1)

    def attempt(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._argv(line),
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )

    @contextmanager
    def background(self, line: str) -> Iterator[Path]:
        """The file with what the command prints, while it runs; it must still run at the end, and end on Ctrl-C."""
        log = self.directory / f"{re.sub('[^a-z]+', '-', line)[:60]}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                self._argv(line), cwd=self.directory, env=self.environ, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            yield log
            assert process.poll() is None, f"{line} has ended\n{log.read_text()}"
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    @staticmethod
    def _argv(line: str) -> list[str]:
        words = shlex.split(line, comments=True)
        return [sys.executable, "-m", "agent", *words[1:]]


def is_endless(line: str) -> bool:
    return line.removeprefix("anchormoe-agent ").startswith(tuple(f"{name} " for name in ENDLESS))


def wait_for(log: Path, words: str, timeout_s: float = 240) -> None:
    end = time.monotonic() + timeout_s
    while words not in log.read_text():
        assert time.monotonic() < end, f"{words!r} did not come:\n{log.read_text()}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaBroker) -> Iterator[Shell]:
    server = RedisServer("redis")
    server.start()
    try:
        kafka.create_topic("sensors", 4)
        yield Shell(tmp_path_factory.mktemp("newcomer"), kafka, server)
    finally:
        server.close()


@pytest.mark.slow
def test_on_your_kafka_from_recordings_to_events(shell: Shell) -> None:
    lines = commands("On your Kafka")
    finite = [line for line in lines if not is_endless(line)]
    before = [line for line in finite if "windows" not in line and "dead-letters" not in line]
    for line in before:
        shell.run(line)
    run, simulate, page, tail = [line for line in lines if is_endless(line)]
    with shell.background(run) as agent, shell.background(f"{simulate} --rate 5"):
        wait_for(agent, "pump-1")
        with shell.background(tail) as events, shell.background(page) as shown:
            wait_for(events, "pump-1")
            wait_for(shown, "operator page: http://")
        for line in finite[len(before) :]:
            shell.run(line) if "dead-letters" in line else shell.run_until(line, "pump")  # after a checkpoint
    assert "Traceback" not in agent.read_text()


@pytest.mark.slow
async def test_reading_events_prints_what_was_published(shell: Shell) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    script = shell.directory / "reader.py"
    script.write_text(program.replace(LOCAL_BROKER, shell.bootstrap))
    published = await read_topic(shell.bootstrap, "events")
    assert published, "the test before this one publishes"
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), cwd=shell.directory, env=shell.environ | {"PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), timeout=60)
        assert b"pump-" in line
    finally:
        process.kill()
        await process.wait()


@pytest.mark.slow
def test_training_and_models(shell: Shell) -> None:
    for line in commands("Training and models"):
        shell.run(line)
    assert (shell.directory / "why.html").stat().st_size > 10_000


@pytest.mark.slow
def test_living_with_it(shell: Shell) -> None:
    said = {line: shell.run(line) for line in commands("Living with it")}
    [listed] = [text for line, text in said.items() if "models list" in line]
    assert "pump-kernel" in listed


@pytest.mark.slow
def test_alarms(shell: Shell) -> None:
    validate, worker, agent, list_alarms = commands("Alarms")
    shell.run(validate)
    with shell.background(worker), shell.background(agent):
        end = time.monotonic() + 240
        listed = shell.attempt(f"{list_alarms.split('#')[0]} --json")  # fails while the worker makes its topics
        while listed.returncode or not listed.stdout:
            assert time.monotonic() < end, f"no alarm was raised\n{listed.stderr}"
            time.sleep(5)
            listed = shell.attempt(f"{list_alarms.split('#')[0]} --json")
        alarms = listed.stdout.splitlines()
        assert orjson.loads(alarms[0])["asset"].startswith("pump-")
