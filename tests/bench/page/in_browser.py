"""What the page costs in a browser: the first picture, the main thread, and how old a change is when it is seen."""

import asyncio
import statistics
import time
from typing import Any

from playwright.async_api import Browser, CDPSession, Page

from tests.bench.page.server import PROBE

_PAINTS = """() => {
  const files = performance.getEntriesByType('resource').filter(one => one.name.includes('/s/'));
  const page = performance.getEntriesByType('navigation')[0];
  return {
    paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
    fleet: performance.getEntriesByName('fleet drawn')[0]?.startTime,
    files: files.reduce((sum, one) => sum + one.encodedBodySize, page.encodedBodySize),
  };
}"""
_LONG_TASKS = """() => {
  window.long = [];
  const note = list => window.long.push(...list.getEntries().map(one => one.duration));
  new PerformanceObserver(note).observe({type: 'longtask'});
}"""
_AGES = """() => {
  window.ages = [];
  const told = new Set();
  const look = () => {
    const text = document.querySelector('tr[data-row] td:last-child')?.textContent ?? '';
    const at = text.match(/t=(\\d+)/)?.[1];
    if (!at || told.has(at)) return;
    told.add(at);
    requestAnimationFrame(() => window.ages.push(Date.now() - Number(at)));
  };
  new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
}"""


async def open_page(browser: Browser, url: str, fragment: str) -> Page:
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    await page.goto(f"{url}/{fragment}")
    await page.wait_for_function("() => performance.getEntriesByName('fleet drawn').length", timeout=60_000)
    return page


async def first_pictures(browser: Browser, url: str, turns: int) -> dict[str, float]:
    """Best of some cold loads, in milliseconds: others use the machine, too."""
    seen: list[dict[str, Any]] = []
    for _ in range(turns):
        page = await open_page(browser, url, "#/fleet")
        await page.wait_for_timeout(300)
        seen.append(await page.evaluate(_PAINTS))
        await page.context.close()
    return {name: min(one[name] for one in seen) for name in ("paint", "fleet", "files")}


async def main_thread(browser: Browser, url: str, *, seconds: float, slower: float) -> dict[str, float]:
    """Processor time of the main thread while two updates a second come, and its longest task, by the clock."""
    page = await open_page(browser, url, "#/fleet")
    cdp = await page.context.new_cdp_session(page)
    await cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    if slower > 1:
        await cdp.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    await page.wait_for_timeout(3000)
    await page.evaluate(_LONG_TASKS)
    before, began = await _busy_s(cdp), time.monotonic()
    await asyncio.sleep(seconds)
    share = (await _busy_s(cdp) - before) / (time.monotonic() - began)
    long = await page.evaluate("window.long")
    heap = await page.evaluate("performance.memory?.usedJSHeapSize ?? 0")
    await page.context.close()
    return {"share": share, "long": float(len(long)), "longest": max(long, default=0.0), "heap_mb": heap / 1e6}


async def _busy_s(cdp: CDPSession) -> float:
    found = await cdp.send("Performance.getMetrics")
    return float({one["name"]: one["value"] for one in found["metrics"]}["TaskDuration"])


async def ages(browser: Browser, url: str, seconds: float) -> list[float]:
    """Seconds from a change to the frame that shows it."""
    page = await open_page(browser, url, f"#/fleet?q={PROBE}")
    await page.wait_for_timeout(1500)
    await page.evaluate(_AGES)
    await asyncio.sleep(seconds)
    found = await page.evaluate("window.ages")
    await page.context.close()
    return sorted(age / 1000 for age in found)


def quantile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else statistics.fmean([float("nan")])
