"""`make pictures`: the operator page of the demo, every view, light and dark, on a desk and on a phone.

`python -m docs.site.page_pictures --out build/pictures` takes all of them, to look at; the few that the documentation
shows go to docs/images.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import httpx
from playwright.async_api import Browser

from tests.support.browser import launched

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
ALL = ROOT / "build" / "pictures"
_SIZES = {"desk": (1280, 800), "phone": (360, 740)}
_SETTLE_MS = 2_500
_WAIT_S = 180
_SEVERAL_ARE_ODD = "() => document.querySelectorAll('tr[data-row] .state[data-kind=abnormal]').length > 1"
_CALM = ("normal", "unknown")
Scheme = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture of the documentation: which view, how high."""

    name: str
    view: str
    scheme: Scheme = "light"
    height: int = 800


DOCUMENTED = (
    Shown("page-fleet", "fleet", height=640),
    Shown("page-asset", "asset", height=1160),
    Shown("page-evidence", "evidence", height=1180),
    Shown("page-past", "past", scheme="dark", height=1000),
)


@contextmanager
def demo() -> Iterator[str]:
    """The address of the page of a running demo."""
    with TemporaryDirectory() as directory:
        text = (ROOT / "configs" / "demo.yaml").read_text().replace("bundles/", f"{ROOT}/configs/bundles/")
        (Path(directory) / "demo.yaml").write_text(text)
        command = [sys.executable, "-m", "agent", "run", "--config", "demo.yaml"]
        log = Path(directory) / "demo.log"
        with log.open("wb") as out:
            environ = os.environ | {"PYTHONPATH": str(ROOT)}
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=directory, env=environ)
        try:
            yield _address(log)
        finally:
            process.terminate()
            process.wait(20)


def _address(log: Path) -> str:
    deadline = time.monotonic() + _WAIT_S
    while not (found := re.findall(r"operator page: (http://\S+)/", log.read_text(errors="replace"))):
        if time.monotonic() > deadline:
            raise SystemExit(f"the demo did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.2)
    return str(found[0])


async def views(url: str) -> dict[str, str]:
    """Addresses of every view, once a pump has a fault: a picture of a calm plant shows little."""
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.timeout(_WAIT_S):
        while True:
            heads = (await client.get("/api/events", params={"type": "state", "limit": 500})).json()["events"]
            odd = [
                one for one in heads if one["asset"].startswith("pump") and one["state"] not in ("normal", "unknown")
            ]
            sure = [one for one in odd if one["p"] and one["p"] > 0.9 and one["previous"] not in (None, "unknown")]
            if sure and len(heads) > 20:
                return _addresses(sure[0])
            await asyncio.sleep(1)


def _addresses(event: dict[str, Any]) -> dict[str, str]:
    asset, moment = event["asset"], int(event["time_ms"])
    return {
        "fleet": "#/fleet",
        "asset": f"#/asset/{asset}",
        "past": f"#/asset/{asset}?at={_iso(moment)}",
        "evidence": f"#/evidence/{event['id']}",
        "alarms": "#/alarms",
        "shelf": "#/shelf",
        "health": "#/health",
        "models": "#/models",
        "help": "#/help",
    }


def _iso(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def take_all(browser: Browser, url: str, found: dict[str, str], out: Path) -> None:
    for size, (width, height) in _SIZES.items():
        for scheme in ("light", "dark"):
            context = await browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="light" if scheme == "light" else "dark",
                has_touch=size == "phone",
            )
            page = await context.new_page()
            for name, fragment in found.items():
                await page.goto(f"{url}/{fragment}")
                await page.wait_for_timeout(_SETTLE_MS)
                await page.screenshot(path=out / f"{name}-{size}-{scheme}.png", full_page=True)
            await context.close()


async def take_documented(browser: Browser, url: str, found: dict[str, str], out: Path) -> None:
    for one in DOCUMENTED:
        context = await browser.new_context(viewport={"width": 1280, "height": one.height}, color_scheme=one.scheme)
        page = await context.new_page()
        await page.goto(f"{url}/{found[one.view]}")
        await page.wait_for_timeout(_SETTLE_MS * 2)
        if one.view == "fleet":
            await page.wait_for_function(_SEVERAL_ARE_ODD, timeout=1000 * _WAIT_S)
        await page.screenshot(path=out / f"{one.name}.png")
        await context.close()


async def take(url: str, out: Path) -> None:
    async with launched() as browser:
        found = await views(url)
        await take_documented(browser, url, found, IMAGES)
        await take_all(browser, url, found, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ALL, help="where all pictures go")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with demo() as url:
        asyncio.run(take(url, out))


if __name__ == "__main__":
    main()
