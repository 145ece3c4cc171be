"""Dead, stale, empty and well are four different pages; and every one finds its way back without a reload."""

import re
import time
from pathlib import Path

from playwright.async_api import Page, expect

from agent.page.state import Bounds, PageState, WindowFacts
from agent.web.users import add_user, remove_user
from tests.browser.conftest import Visit
from tests.support.page_plant import busy_state, page_state, serving_page
from tests.support.services.ports import free_port

_DAY_MS = 86_400_000


def well(state: PageState | None = None) -> PageState:
    """Two normal assets, judged just now."""
    state = state or page_state()
    now_ms = int(time.time() * 1000)
    for name in ("pump-1", "pump-2"):
        state.add_window(WindowFacts(name, "pumps", "normal", now_ms - 60_000, now_ms, 0.99))
    state.set_link("live")
    state.fleet.advance()
    return state


async def fresh(page: Page, kind: str, timeout_s: float = 60) -> None:
    await page.wait_for_function("kind => document.body.dataset.fresh === kind", arg=kind, timeout=1000 * timeout_s)


async def test_a_server_that_dies_is_no_good_news_and_one_that_comes_back_is_found(visit: Visit) -> None:
    port = free_port()
    async with serving_page(well(), port=port) as server:
        page = await visit(server.url).open()
        await expect(page.get_by_text("All 2 assets are normal")).to_be_visible()
        await page.evaluate("window.kept = true")
    await fresh(page, "lost")
    await expect(page.get_by_text("This page lost the server")).to_be_visible()
    await expect(page.get_by_text("Nobody knows the present state")).to_be_visible()
    await expect(page.get_by_text("All 2 assets are normal")).to_have_count(0)
    await expect(page.get_by_text("This does not mean that all is well")).to_be_visible()
    hatched = await page.evaluate("getComputedStyle(document.querySelector('main')).backgroundImage")
    assert "gradient" in hatched
    await page.goto(f"{server.url}/#/alarms")
    await expect(page.get_by_text("No alarms.")).to_have_count(0)
    async with serving_page(well(), port=port):
        await fresh(page, "live")
        await page.goto(f"{server.url}/#/fleet")
        await expect(page.get_by_text("All 2 assets are normal")).to_be_visible()
        assert await page.evaluate("window.kept") is True  # never loaded again


async def test_old_data_and_no_data_do_not_look_like_all_is_well(visit: Visit) -> None:
    state = page_state()
    state.set_link("live")
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        await fresh(page, "empty")
        await expect(page.get_by_text("No asset has been seen yet")).to_be_visible()
        old_ms = int(time.time() * 1000) - 120_000
        state.add_window(WindowFacts("pump-1", "pumps", "normal", old_ms, old_ms, 0.99))
        await fresh(page, "stale")
        await expect(page.get_by_text("but the data is old")).to_be_visible()
        lined = await page.evaluate("getComputedStyle(document.querySelector('main')).backgroundImage")
        well(state)
        await fresh(page, "live")
        await expect(page.get_by_text("All 2 assets are normal")).to_be_visible()
        calm = await page.evaluate("getComputedStyle(document.querySelector('main')).backgroundImage")
        assert (calm, "gradient" in lined) == ("none", True)


async def test_assets_that_do_not_fit_are_not_called_normal(visit: Visit) -> None:
    state = well(page_state(bounds=Bounds(assets=2)))
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        await expect(page.get_by_text("All 2 assets are normal")).to_be_visible()
        now_ms = int(time.time() * 1000)
        state.add_window(WindowFacts("pump-3", "pumps", "worn", now_ms, now_ms, 0.9))
        await expect(page.get_by_role("note")).to_contain_text("1 further asset is not shown")
        await expect(page.get_by_text("All 2 assets that are shown are normal")).to_be_visible()


async def test_where_only_changes_are_published_a_calm_plant_is_not_called_silent(visit: Visit) -> None:
    """What tells them apart is whether the agents go on reading."""
    state = page_state()
    state.set_link("live")
    old_ms = int(time.time() * 1000) - 7_200_000
    state.add_window(WindowFacts("pump-1", "pumps", "normal", old_ms, old_ms, 0.99))
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        await fresh(page, "stale")
        silence = page.locator(".silence")
        await expect(silence).to_contain_text("whether anything is sent is not known here")
        tell_agents(state, lag=0, moved_ms=int(time.time() * 1000))
        await fresh(page, "live")
        await expect(page.locator(".fresh")).to_contain_text("live, records read", timeout=30_000)
        await expect(page.get_by_text("All 1 assets are normal")).to_be_visible()
        tell_agents(state, lag=1_234, moved_ms=old_ms + 60_000)
        await fresh(page, "stale")
        told = "the agents have 1,234 records to read and have not got on for 1 h 59 min"
        await expect(silence).to_contain_text(told, timeout=30_000)
        tell_agents(state, lag=0, moved_ms=old_ms + 60_000)
        await expect(silence).to_contain_text("no asset has sent anything for 1 h 59 min", timeout=30_000)


def tell_agents(state: PageState, *, lag: int, moved_ms: int) -> None:
    """At once, not with the next heartbeat."""
    state.lag, state.agents_ms = lambda: lag, lambda: moved_ms
    state.link_changed = state.fleet.seq + 1


async def test_a_source_that_the_server_lost_is_told_with_its_reason(visit: Visit) -> None:
    state = well()
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        await fresh(page, "live")
        state.set_link("lost", "Kafka is away: no answer")
        await fresh(page, "lost")
        await expect(page.locator(".silence")).to_contain_text("Kafka is away: no answer")
        state.set_link("live")
        await fresh(page, "live")


async def test_alarms_that_are_not_known_are_not_called_none(visit: Visit) -> None:
    state = busy_state()
    for name in list(state.alarms):
        state.remove_alarm(name)
    async with serving_page(state) as server:
        page = await visit(server.url).open("#/alarms")
        await expect(page.get_by_text("✓ No alarms.")).to_be_visible()
        state.set_alarm_link("lost", "the topic cannot be read")
        await expect(page.locator("p.nothing-known").first).to_contain_text(
            "The alarms are not known: the topic cannot be read"
        )
        await expect(page.get_by_text("✓ No alarms.")).to_have_count(0)


async def test_a_browser_whose_clock_is_a_day_off_shows_right_ages(visit: Visit) -> None:
    for shift in (-_DAY_MS, _DAY_MS):
        async with serving_page(well()) as server:
            visitor = visit(server.url)
            context = await visitor.context()
            await context.add_init_script(f"const real = Date.now; Date.now = () => real() + ({shift});")
            page = await visitor.open("#/fleet?all=1", context)
            await fresh(page, "live")
            await expect(page.locator("tr[data-row]").first).to_contain_text(re.compile(r"\((6|7|8)\d s\)"))


async def test_eight_tabs_are_all_alive(visit: Visit) -> None:
    """A browser gives an origin six connections: the fifth tab and those after it ask every five seconds."""
    state = well()
    async with serving_page(state) as server:
        visitor = visit(server.url)
        context = await visitor.context()
        pages = [await visitor.open("#/fleet?all=1", context) for _ in range(8)]
        for page in pages:
            await expect(page.locator("tr[data-row]")).to_have_count(2)
        now_ms = int(time.time() * 1000)
        state.add_window(WindowFacts("pump-3", "pumps", "worn", now_ms, now_ms, 0.9))
        for page in pages:
            await expect(page.locator("tr[data-row]")).to_have_count(3)
        visitor.seen.errors.clear()  # 429: told to ask instead


async def test_a_wrong_token_is_told_and_the_right_one_opens_the_page(visit: Visit, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    token = add_user(users, "ada", "operate")
    async with serving_page(busy_state(), users=users) as server:
        visitor = visit(server.url)
        page = await visitor.open()
        field = page.get_by_label("Token")
        for _ in range(5):
            await field.fill("wrong")
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_role("alert").filter(has_text="not valid")).to_be_visible()
        await field.fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert").filter(has_text="wait a minute")).to_be_visible()
        assert await page.locator("canvas").count() == 0
        visitor.seen.errors.clear()  # 401 and 429
    async with serving_page(busy_state(), users=users) as server:
        page = await visit(server.url).open("#/alarms")
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("button", name="Log out ada")).to_be_visible()
        assert token not in page.url
        await page.get_by_role("button", name="Log out ada").click()
        await expect(page.get_by_label("Token")).to_be_visible()


async def test_somebody_who_is_removed_is_asked_to_log_in_while_they_look(visit: Visit, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    token = add_user(users, "ada", "operate")
    async with serving_page(busy_state(), users=users) as server:
        visitor = visit(server.url)
        page = await visitor.open("#/asset/pump-1")
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await expect(page.locator(".uplot")).to_have_count(2)
        remove_user(users, "ada")
        await expect(page.get_by_label("Token")).to_be_visible()
        await expect(page.locator(".uplot")).to_have_count(0)
        visitor.seen.errors.clear()  # 401: that is how the page knows
