"""One browser for all tests of this process; every test gets its own visitor, who must not have seen anything wrong."""

from collections.abc import AsyncIterator, Callable
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.support.browser import Visitor, launched
from tests.support.services.chromium import find_chromium
from tests.support.services.requirements import ServiceUnavailable

_HERE = Path(__file__).parent
expect.set_options(timeout=60_000)  # five seconds otherwise, which a busy machine needs for one drawing
Visit = Callable[..., Visitor]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The browser belongs to one loop, so all of them run in it."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == _HERE and iscoroutinefunction(item.function):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    try:
        find_chromium()
    except ServiceUnavailable as error:
        pytest.fail(str(error), pytrace=False)
    async with launched() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    visitors: list[Visitor] = []

    def make(url: str, **options: object) -> Visitor:
        visitors.append(Visitor(browser, url, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        await visitor.close()
    for visitor in visitors:
        visitor.check()
