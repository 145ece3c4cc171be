"""The whole way with real parts: a broker, Redis, an agent, alarm workers and `anchormoe-agent page` in a browser."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from agent.web.users import add_user
from tests.browser.conftest import Visit
from tests.conftest import KafkaFactory, RedisFactory
from tests.support.agent_process import Agent, Names, create_topics, produce, pump_records, write_plant
from tests.support.alarm_workers import Worker, rule
from tests.support.services.kafka import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
STATES = ("blockage", "cavitation", "bearing_wear")
_LIVE = "() => document.body.dataset.fresh === 'live' || document.body.dataset.fresh === 'stale'"


class PageProgram:
    """`anchormoe-agent page` as a process."""

    def __init__(self, plant: Path) -> None:
        self.log = plant.parent / "page.log"
        command = [sys.executable, "-m", "agent", "page", "--config", str(plant), "--port", "0"]
        with self.log.open("wb") as out:
            environ = os.environ | {"OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=environ)

    async def url(self) -> str:
        async with asyncio.timeout(150):
            while not (found := re.findall(r"operator page: (http://\S+)/", self.log.read_text(errors="replace"))):
                assert self._process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.2)
        return str(found[0])

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(120)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)


RECORDS = 1_800
"""Of each pump: at the end of them some are faulty."""


class Whole:
    """A plant with alarms on a broker of its own; everything it started ends with it."""

    def __init__(self, broker: KafkaBroker, redis_url: str, directory: Path, name: str) -> None:
        self.broker, self.names, self.users = broker, Names(name), directory / "users.yaml"
        create_topics(broker, self.names, 2)
        self.plant = write_plant(
            directory / "plant.yaml", self.names, bootstrap=broker.bootstrap, redis_url=redis_url, **self._sections()
        )
        self.agent = Agent(self.plant, directory / "agent.log")
        self._started: list[Any] = [self.agent]

    def _sections(self) -> dict[str, Any]:
        topics = {one: f"{self.names.base}-{one}" for one in ("inputs", "transitions", "alarms", "audit")}
        rules = [rule(state.replace("_", "-"), states=[state], raise_at=0.5, clear_below=0.4) for state in STATES]
        consoles = [{"name": "hall", "assets": ["*"]}]
        faust = str(self.users.parent / "faust")
        alarms = {"topics": topics, "partitions": 2, "consoles": consoles, "rules": rules, "http": None}
        return {
            "emission": {"policy": "all"},
            "http": {"port": 0, "users": str(self.users)},
            "alarms": {**alarms, "directory": faust, "tick": "1s"},
        }

    def start(self) -> PageProgram:
        self.agent.start()
        worker = Worker(self.plant, ())
        page = PageProgram(self.plant)
        self._started += [worker, page]
        return page

    def close(self) -> None:
        for one in self._started:
            one.kill() if isinstance(one, Worker) else one.close()


@pytest.fixture
def whole(kafka_factory: KafkaFactory, redis_factory: RedisFactory, tmp_path: Path, topic_name: str) -> Iterator[Whole]:
    redis = redis_factory("redis")
    found = Whole(kafka_factory(), redis.url, tmp_path, topic_name)
    yield found
    found.close()


async def log_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Log out")).to_be_visible()


async def test_a_plant_is_seen_judged_again_acted_on_and_missed_when_its_broker_is_away(
    visit: Visit, whole: Whole
) -> None:
    token = add_user(whole.users, "ada", "operate")
    program = whole.start()
    await produce(whole.broker.bootstrap, whole.names.input, await pump_records(6, RECORDS), per_second=None)
    visitor = visit(await program.url())
    page = await visitor.open()
    await log_in(page, token)

    await expect(page.get_by_role("heading", name="All 6 assets")).to_be_visible(timeout=150_000)
    faulty = re.compile("|".join(STATES))
    alarmed = page.locator("tr[data-row]").filter(has=page.locator(".priority"), has_text=faulty)
    await expect(alarmed.first).to_be_visible(timeout=90_000)
    await alarmed.first.locator("a").first.click()
    await page.locator('main td a[href^="#/evidence/"]').filter(has_text=faulty).first.click(timeout=60_000)
    verdict = page.locator(".verdict")
    await expect(verdict).to_contain_text("Judged again from the log", timeout=90_000)
    await expect(verdict).to_contain_text("identical to what was published")
    await expect(page.locator('.sum[data-adds="yes"]').first).to_be_visible()

    await page.goto(f"{visitor.url}/#/health")
    await expect(page.get_by_text("0 records", exact=True)).to_be_visible(timeout=60_000)  # left to the agents
    await _acknowledge(page, visitor.url)
    await _broker_goes_and_comes_back(page, whole, visitor.url)
    visitor.seen.errors.clear()  # a broker that is away is told by a status of 4xx or 5xx in between
    assert program.stop() == 0


async def _acknowledge(page: Page, url: str) -> None:
    await page.goto(f"{url}/#/alarms")
    waiting = page.locator("tr.waiting")
    await expect(waiting.first).to_be_visible(timeout=90_000)
    name = await waiting.first.locator("input").get_attribute("data-alarm")
    await page.get_by_label(f"choose {name}").check()
    await page.get_by_role("button", name="Acknowledge (1)").click()
    await page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    chip = page.locator("ul.chips li").filter(has_text=f"Acknowledge {name}").first
    await expect(chip).to_contain_text("done", timeout=60_000)


async def _broker_goes_and_comes_back(page: Page, whole: Whole, url: str) -> None:
    await page.goto(f"{url}/#/fleet")
    await page.wait_for_function(_LIVE)
    await page.evaluate("window.kept = true")
    whole.broker.kill()
    await page.wait_for_function("() => document.body.dataset.fresh === 'lost'", timeout=60_000)
    await expect(page.locator(".silence")).to_contain_text("Kafka is away")
    whole.broker.start()
    await page.wait_for_function(_LIVE, timeout=90_000)
    assert await page.evaluate("window.kept") is True
