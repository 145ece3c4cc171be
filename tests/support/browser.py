"""A real browser that looks at the page, and remembers everything that a user must never see."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, async_playwright

from tests.support.services.chromium import find_chromium

AXE = Path(__file__).parents[1] / "browser" / "vendor" / "axe.min.js"
_EXPECTED = (
    "net::ERR_CONNECTION_REFUSED",
    "net::ERR_CONNECTION_RESET",
    "net::ERR_INCOMPLETE_CHUNKED_ENCODING",
    "net::ERR_EMPTY_RESPONSE",
    "willReadFrequently",
)
"""What the browser says by itself when a server dies, and when a test looks at pixels."""
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""Root may not use the sandbox, and containers have a small /dev/shm."""


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """Raises ServiceUnavailable where there is no browser."""
    program = find_chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Seen:
    """What went wrong in a page while nobody looked."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def watch(self, page: Page, origin: str) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._request(request, origin))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(reason in message.text for reason in _EXPECTED):
            self.errors.append(message.text)

    def _request(self, request: Request, origin: str) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != origin:
            self.foreign.append(request.url)


class Visitor:
    """Opens pages of one address; `check` says what no page may ever do."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url, self.seen = url, Seen()
        self._browser, self._options = browser, options
        self._contexts: list[BrowserContext] = []

    async def context(self, **options: Any) -> BrowserContext:
        wanted = {"viewport": {"width": 1280, "height": 900}, **self._options, **options}
        context = await self._browser.new_context(**wanted)
        self._contexts.append(context)
        return context

    async def open(self, fragment: str = "#/fleet", context: BrowserContext | None = None, **options: Any) -> Page:
        page = await (context or await self.context(**options)).new_page()
        page.set_default_timeout(60_000)
        self.seen.watch(page, self.url)
        await page.goto(f"{self.url}/{fragment}")
        return page

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()

    def check(self) -> None:
        """No script error, no violation of the content security policy (the console has it), no other origin."""
        assert not self.seen.errors, self.seen.errors
        assert not self.seen.foreign, self.seen.foreign


async def violations(page: Page, include: Sequence[str] = ()) -> list[str]:
    """What axe finds against WCAG 2.2 AA. It is evaluated, not added as a script: the policy refuses that."""
    await page.evaluate(AXE.read_text())
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", *include]
    found = await page.evaluate(
        "rules => axe.run(document, {runOnly: {type: 'tag', values: rules}}).then(done => done.violations)", rules
    )
    return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]


async def overflow(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    root = "document.documentElement"
    return int(await page.evaluate(f"{root}.scrollWidth - {root}.clientWidth"))
