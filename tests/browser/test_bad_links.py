"""Links of last week, views that cannot be drawn, times that are none: the page says what is wrong, and goes on."""

import time

import orjson
import pytest
from playwright.async_api import expect

from agent.page.api import ModelHealth
from agent.page.state import WindowFacts, event_head
from agent.page.stored_event import StoredEvent
from tests.browser.conftest import Visit
from tests.browser.test_views import evidence_event
from tests.support.page_plant import alarm, busy_state, page_state, serving_page

LEADS_NOWHERE = {
    "#/asset/nobody": ("no such asset is known", "This asset cannot be shown"),
    "#/asset": ("This asset cannot be shown",),
    "#/evidence/gone": ("does not hold this event", "This event cannot be shown"),
    "#/alarms/over%3Apump-1": ("This alarm is not present",),
    "#/shelf/over%3Apump-1": ("This alarm is not present",),
    "#/asset/pump-1?at=2001-01-01T00:00:00Z": ("No state of that moment is in the page's reach",),
}


async def test_a_link_that_leads_nowhere_says_so(visit: Visit) -> None:
    async with serving_page(busy_state()) as server:
        visitor = visit(server.url)
        for link, said in LEADS_NOWHERE.items():
            page = await visitor.open(link)
            for words in said:
                await expect(page.locator("main")).to_contain_text(words)
            await expect(page.locator("main")).not_to_contain_text("Reading")
            await page.close()
        visitor.seen.errors.clear()  # 404: that is what the links lead to


async def test_a_page_at_an_asset_that_nobody_knows_goes_on(visit: Visit) -> None:
    """Its stream must not be refused again and again because of the asset."""
    async with serving_page(busy_state()) as server:
        visitor = visit(server.url)
        page = await visitor.open("#/asset/nobody")
        await page.wait_for_timeout(4_000)  # three tries
        await expect(page.locator("footer")).not_to_contain_text("too many pages are open")
        now_ms = int(time.time() * 1000)
        server.state.add_window(WindowFacts("late-one", "pumps", "worn", now_ms, now_ms, 0.9))
        await page.goto(f"{server.url}/#/fleet")
        await expect(page.get_by_role("link", name="late-one")).to_be_visible()
        visitor.seen.errors.clear()  # 404


@pytest.mark.parametrize("link", ["#/asset/pump-1?at=yesterday", "#/asset/pump-1?at=", "#/fleet?from=then&to=now"])
async def test_a_time_that_is_none_is_left_out(visit: Visit, link: str) -> None:
    async with serving_page(busy_state()) as server:
        page = await visit(server.url).open(link)
        await expect(page.locator(".fresh")).to_be_visible()
        await expect(page.locator("main h2").first).to_be_visible()
        assert await page.locator(".past, main .refused").count() == 0


async def test_a_moment_is_found_however_many_technical_events_followed(visit: Visit) -> None:
    state = busy_state()
    known = evidence_event(state)
    asset, at_ms = known.head.asset, known.head.time_ms + 60_000
    for number in range(30):
        gap = {"asset": asset, "group": "pumps", "type": "gap"}
        head = event_head(f"gap-{number}", at_ms - 30 + number, gap, version=2, text="a gap")
        state.add_event(StoredEvent(head, orjson.dumps(gap)))
    async with serving_page(state) as server:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000 + 1))
        page = await visit(server.url).open(f"#/asset/{asset}?at={moment}")
        await expect(page.locator(".verdict")).to_be_visible()
        await expect(page.locator("main .state").first).to_have_text(known.head.state or "")


async def test_an_asset_whose_last_event_is_of_another_version_is_shown(visit: Visit) -> None:
    state = busy_state()
    data = {"asset": "pump-1", "group": "pumps", "type": "state", "state": "b", "evidence": {"channels": 5, "spans": 1}}
    head = event_head("newer", int(time.time() * 1000), data, version=0, text="of version 9")
    state.add_event(StoredEvent(head, orjson.dumps(data), readable=False, problem="it is of version 9"))
    async with serving_page(state) as server:
        page = await visit(server.url).open("#/asset/pump-1")
        await expect(page.locator(".sentence")).to_contain_text("of version 9")
        await expect(page.locator(".uplot")).to_have_count(2)


async def test_a_view_that_cannot_be_drawn_says_so_in_a_living_frame_and_tries_again(visit: Visit) -> None:
    state = busy_state()
    broken = ModelHealth.model_construct(group="pumps", name="m", version="1", digest=None, source="seen", card="")
    state.models["pumps"] = broken
    async with serving_page(state) as server:
        visitor = visit(server.url)
        page = await visitor.open("#/models")
        await expect(page.get_by_role("alert").filter(has_text="cannot be drawn")).to_be_visible()
        state.add_alarm(alarm("fire:pump-1"))
        await expect(page.locator(".urgent")).to_contain_text("fire")
        state.models["pumps"] = broken.model_copy(update={"digest": "d" * 64})
        await page.get_by_role("link", name="To the fleet").click()
        await expect(page.locator("canvas")).to_be_visible()
        await page.goto(f"{server.url}/#/models")
        await expect(page.get_by_role("heading", name="Models")).to_be_visible()
        visitor.seen.errors.clear()  # the page tells the console, too


async def test_data_of_another_day_say_which_day(visit: Visit) -> None:
    state = page_state()
    state.set_link("live")
    old_ms = int(time.time() * 1000) - 3 * 86_400_000
    state.add_window(WindowFacts("pump-1", "pumps", "normal", old_ms, old_ms, 0.99))
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        day = time.strftime("%Y-%m-%d", time.gmtime(old_ms / 1000))
        await expect(page.locator(".silence")).to_contain_text(f"What you see ended at {day}")
