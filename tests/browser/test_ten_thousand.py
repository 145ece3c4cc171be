"""Ten thousand assets, a tenth of which changes every second: drawn at once, in their places, and still readable."""

import asyncio
import time

from playwright.async_api import Locator, expect

from agent.page.state import WindowFacts
from tests.browser.conftest import Visit
from tests.support.big_fleet import GROUPS, asset_name, big_state, changing
from tests.support.browser import violations
from tests.support.page_plant import serving_page

_SHARE = 0.5
"""Of the main thread; a gate against a mistake, not the target: tests.bench.page measures that on a quiet machine."""


async def test_ten_thousand_assets_are_drawn_listed_and_found_while_they_change(visit: Visit) -> None:
    state = big_state()
    async with serving_page(state) as server, changing(state):
        page = await visit(server.url).open()
        await expect(page.locator("canvas")).to_have_count(len(GROUPS))
        await expect(page.get_by_role("heading", name="All 10,000 assets")).to_be_visible()
        await page.get_by_role("button", name="Show the next 160").click()
        await expect(page.locator("tr[data-row]").nth(199)).to_be_attached(timeout=30_000)
        assert await page.locator("tr[data-row]").count() == 200
        assert await violations(page) == []
        cdp = await page.context.new_cdp_session(page)
        await cdp.send("Performance.enable", {"timeDomain": "threadTicks"})  # others use the machine, too
        before = await _busy_s(cdp)
        began = time.monotonic()
        await page.wait_for_timeout(3000)
        assert (await _busy_s(cdp) - before) / (time.monotonic() - began) < _SHARE
        await page.locator("#search").fill(asset_name(4711))
        await expect(page.locator("tr[data-row]")).to_have_count(1)
        await page.locator("tr[data-row] a").click()
        await expect(page.locator("main h1")).to_have_text(asset_name(4711))


async def _busy_s(cdp: object) -> float:
    found = await cdp.send("Performance.getMetrics")  # type: ignore[attr-defined]
    return float({one["name"]: one["value"] for one in found["metrics"]}["TaskDuration"])


async def test_a_cell_opens_the_asset_that_is_in_it(visit: Visit) -> None:
    """The same place for the same name, whatever the states are."""
    state = big_state(2_000)
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        canvas = page.locator("canvas").nth(1)
        await expect(canvas).to_be_visible()
        assert await _title_under_the_mouse(canvas) == f"{asset_name(503)}: normal"
        now_ms = int(time.time() * 1000)
        state.add_window(WindowFacts(asset_name(500), GROUPS[1], "worn", now_ms, now_ms, 0.9))
        await expect(page.locator("tr[data-row]")).to_have_count(1)
        await canvas.click(position={"x": 3 * 12 + 5, "y": 5})
        await expect(page.locator("main h1")).to_have_text(asset_name(503))


async def _title_under_the_mouse(canvas: Locator) -> str:
    """Of the fourth cell: empty until the cells are drawn."""
    title: str | None = None
    async with asyncio.timeout(30):
        while not title:
            for at in (5, 6):  # only a mouse that moves is told
                await canvas.hover(position={"x": 3 * 12 + at, "y": 5})
            title = await canvas.get_attribute("title")
    return title
