"""What a stranger sees who has only README: `make run` says where the page is, and the page answers in a minute."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Visit
from tests.support.services.ports import free_port

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Demo:
    """`anchormoe-agent run --config configs/demo.yaml` at a port of our choice."""

    def __init__(self, directory: Path) -> None:
        self.port, self._log = free_port(), directory / "demo.log"
        text = (ROOT / "configs" / "demo.yaml").read_text()
        text = text.replace("bundles/", f"{ROOT}/configs/bundles/").replace("port: 0", f"port: {self.port}")
        (directory / "demo.yaml").write_text(text)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "agent", "run", "--config", "demo.yaml"]
        environ = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=environ, cwd=self._directory)

    async def url(self) -> str:
        async with asyncio.timeout(120):
            while not (found := re.findall(r"operator page: (http://\S+)/", self._log.read_text(errors="replace"))):
                assert self._process is not None
                assert self._process.poll() is None, self._log.read_text()
                await asyncio.sleep(0.2)
        return str(found[-1])

    def end(self, how: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(30)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    found = Demo(tmp_path)
    found.start()
    yield found
    found.end(signal.SIGKILL)


async def test_the_demo_answers_what_since_when_why_what_to_do_and_how_sure(visit: Visit, demo: Demo) -> None:
    url = await demo.url()
    page = await visit(url).open()
    row = page.locator("tr[data-row]").filter(has=page.locator('.state[data-kind="abnormal"]')).first
    await expect(row).to_be_visible(timeout=120_000)
    cells = await row.locator("td").all_inner_texts()
    assert re.fullmatch(r"[a-z_]+", cells[0].strip())
    assert re.search(r"\d\d:\d\d:\d\d \(\d", cells[1])
    assert re.fullmatch(r"(> )?\d+ %", cells[2].strip())
    assert "→" in cells[3]
    name = await row.locator("a").first.inner_text()
    await page.goto(f"{url}/#/asset/{name}")
    await expect(page.locator(".uplot").first).to_be_visible()
    await expect(page.locator(".sentence").first).not_to_be_empty()
    await page.get_by_role("link", name="All the evidence").click()
    await expect(page.locator('.sum[data-adds="yes"]').first).to_be_visible()
    assert await page.locator('.sum[data-adds="no"]').count() == 0
    await expect(page.locator('.verdict[data-identical="true"]')).to_contain_text(
        "identical to what was published", timeout=60_000
    )
    await expect(page.locator("#why-not")).to_contain_text("as likely as")


async def test_an_agent_that_is_killed_is_missed_and_the_next_one_is_shown_without_a_reload(
    visit: Visit, demo: Demo
) -> None:
    visitor = visit(await demo.url())
    page = await visitor.open("#/fleet?all=1")
    await expect(page.locator("tr[data-row]").first).to_be_visible(timeout=60_000)
    await page.evaluate("window.kept = true")
    demo.end(signal.SIGKILL)
    await page.wait_for_function("() => document.body.dataset.fresh === 'lost'", timeout=60_000)
    await expect(page.get_by_text("Nobody knows the present state")).to_be_visible()
    demo.start()
    await page.wait_for_function("() => document.body.dataset.fresh === 'live'", timeout=120_000)
    await expect(page.locator("tr[data-row]").first).to_be_visible(timeout=60_000)
    assert await page.evaluate("window.kept") is True
