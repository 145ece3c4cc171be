"""Every view in a real browser: what it shows, whoever looks at it and however; names and numbers that are hostile."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import orjson
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from agent.page.history import Wanted
from agent.page.state import Bounds, PageState, WindowFacts, event_head
from agent.page.stored_event import StoredEvent
from agent.page.traces import Recent
from tests.bench.page.server import FAST, fast_group, fast_samples
from tests.browser.conftest import Visit
from tests.support.browser import overflow, violations
from tests.support.page_plant import PageServer, alarm, busy_state, page_state, serving_page, with_samples

HOSTILE = '<img src=x onerror="document.title=1"><script>alert(1)</script>'


@pytest_asyncio.fixture(loop_scope="session")
async def server() -> AsyncIterator[PageServer]:
    async with serving_page(busy_state()) as found:
        yield found


def views(state: PageState) -> list[str]:
    event = evidence_event(state)
    moment = "2026-11-18T10:00:00Z"
    return [
        "#/fleet",
        "#/fleet?q=pump&all=1",
        f"#/asset/{event.head.asset}",
        f"#/asset/{event.head.asset}?at={moment}",
        f"#/evidence/{event.head.id}",
        "#/alarms",
        "#/alarms/wear%3Apump-1",
        "#/shelf",
        "#/health",
        "#/models",
        "#/help",
    ]


def evidence_event(state: PageState) -> StoredEvent:
    """The newest with evidence and a runner-up."""
    heads, _ = state.history.find(Wanted(), 500)
    found = (state.history.get(head.id) for head in heads)
    return next(one for one in found if one is not None and orjson.loads(one.raw).get("why_not"))


async def settled(page: Page) -> None:
    await expect(page.locator("main h1")).to_be_attached()
    await expect(page.locator(".fresh")).to_be_visible()


@pytest.mark.parametrize(
    ("scheme", "forced"), [("light", "none"), ("dark", "none"), ("light", "active")], ids=["light", "dark", "forced"]
)
async def test_no_view_breaks_a_rule_of_accessibility(
    visit: Visit, server: PageServer, scheme: Literal["light", "dark"], forced: Literal["none", "active"]
) -> None:
    page = await visit(server.url).open(color_scheme=scheme, forced_colors=forced)
    found = {}
    for view in views(server.state):
        await page.goto(f"{server.url}/{view}")
        await settled(page)
        found[view] = await violations(page)
    assert [f"{view} {one}" for view, several in found.items() for one in several] == []


@pytest.mark.parametrize("width", [320, 360, 1280])
async def test_nothing_is_wider_than_the_window(visit: Visit, server: PageServer, width: int) -> None:
    page = await visit(server.url).open(viewport={"width": width, "height": 740}, has_touch=width < 400)
    wider = {}
    for view in views(server.state):
        await page.goto(f"{server.url}/{view}")
        await settled(page)
        wider[view] = await overflow(page)
    assert {view: pixels for view, pixels in wider.items() if pixels > 0} == {}


async def test_names_with_markup_are_text_wherever_they_are_shown(visit: Visit) -> None:
    state = busy_state()
    known = evidence_event(state)
    data = orjson.loads(known.raw)
    data["asset"] = data["text"] = HOSTILE
    for span in data["evidence"]["spans"]:
        span["channels"] = [HOSTILE]
    head = event_head("hostile", known.head.time_ms, data, version=2, text=HOSTILE)
    state.add_window(WindowFacts(HOSTILE, "pumps", HOSTILE, 1, known.head.time_ms, 0.9, HOSTILE))
    state.add_event(StoredEvent(head, orjson.dumps(data)))
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        dialogs: list[Any] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog))  # playwright marks the function
        for view in ("#/fleet?all=1", f"#/asset/{quote(HOSTILE, safe='')}", "#/evidence/hostile"):
            await page.goto(f"{server.url}/{view}")
            await expect(page.locator("main").get_by_text("<img src=x").first).to_be_attached()
            assert await page.locator("main img, main script").count() == 0
        assert await page.title() != "1"
        assert dialogs == []


async def test_the_page_adds_the_sum_up_and_says_so_when_it_is_forged(visit: Visit) -> None:
    state = busy_state()
    known = evidence_event(state)
    data = orjson.loads(known.raw)
    data["evidence"]["spans"][0]["contribution"] += 0.001
    state.add_event(StoredEvent(event_head("forged", known.head.time_ms, data, version=2), orjson.dumps(data)))
    async with serving_page(state) as server:
        page = await visit(server.url).open(f"#/evidence/{known.head.id}")
        sums = page.locator(".sum")
        await expect(sums.first).to_contain_text("Added up by this page")
        await expect(sums.first).to_contain_text("difference 0.00000")
        assert await page.locator('.sum[data-adds="no"]').count() == 0
        await page.goto(f"{server.url}/#/evidence/forged")
        await expect(page.locator('.sum[data-adds="no"]').first).to_contain_text("Does not add up!")
        await expect(page.locator('.sum[data-adds="no"]').first).to_contain_text("difference 0.001000000")


async def test_an_event_of_another_version_is_shown_as_published(visit: Visit) -> None:
    state = busy_state()
    data = {"asset": "pump-1", "group": "pumps", "type": "state", "novelty": {"deep": [1, 2]}}
    head = event_head("newer", 1_700_000_000_000, data, version=0, text="of version 9")
    state.add_event(StoredEvent(head, orjson.dumps(data), readable=False, problem="it is of version 9"))
    async with serving_page(state) as server:
        page = await visit(server.url).open("#/evidence/newer")
        await expect(page.get_by_role("alert").filter(has_text="cannot read the event")).to_contain_text("version 9")
        await page.get_by_text("As published (JSON)").click()
        await expect(page.locator("main pre")).to_contain_text("novelty")


async def test_cells_are_grey_outlined_hatched_or_filled_and_stay_in_their_places(visit: Visit) -> None:
    state = busy_state()
    for name, said in (("a-normal", "normal"), ("b-worn", "worn"), ("c-unknown", "unknown"), ("d-alarm", "worn")):
        state.add_window(WindowFacts(name, "pumps", said, 1, 9_000_000_000_000, 0.9))
    state.add_alarm(alarm("wear:d-alarm"))
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        await expect(page.locator("canvas")).to_be_visible()
        await _drawn(page, 3, [176, 0, 32])  # with its alarm, so after everything else
        centres = [await _cell(page, place) for place in range(4)]
        assert centres[0] == [185, 191, 197]  # --normal
        assert centres[1] == [241, 242, 243]  # the panel: only its outline is strong
        assert centres[3] == [176, 0, 32]  # --high
        before = await page.evaluate("document.querySelector('canvas').toDataURL()")
        state.add_window(WindowFacts("a-normal", "pumps", "worn", 1, 9_000_000_000_800, 0.9))
        await page.wait_for_function(
            "before => document.querySelector('canvas').toDataURL() !== before", arg=before, timeout=30_000
        )
        assert [await _cell(page, place) for place in range(4)][1:] == centres[1:]


_PIXEL = """
async place => {
  const folder = document.querySelector('script[type=module]').src.replace('app.js', '');
  const { layout } = await import(folder + 'charts/fleet_canvas.js');
  const canvas = document.querySelector('canvas');
  const count = Number(canvas.getAttribute('aria-label').match(/(\\d+) assets/)[1]);
  const { across, size, height } = layout(count, canvas.clientWidth, false);
  const x = (place % across) * size + size - 9, y = Math.floor(place / across) * height + height - 9;
  return [...canvas.getContext('2d').getImageData(x, y, 1, 1).data].slice(0, 3);
}
"""


async def _cell(page: Page, place: int) -> list[int]:
    """Colour near the right lower corner of a cell, where there are neither words nor an outline."""
    return list(await page.evaluate(_PIXEL, place))


async def _drawn(page: Page, place: int, colour: list[int]) -> None:
    async with asyncio.timeout(30):
        while await _cell(page, place) != colour:
            await page.wait_for_timeout(50)


async def test_everything_can_be_reached_by_the_keyboard(visit: Visit, server: PageServer) -> None:
    page = await visit(server.url).open()
    await expect(page.locator("tr[data-row]").first).to_be_visible()
    await page.keyboard.press("/")
    await expect(page.locator("#search")).to_be_focused()
    await page.keyboard.type("pump-1")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("main h1")).to_have_text("pump-1")
    chart = page.locator(".plot").first
    await chart.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(page.locator("#polite")).to_contain_text("bar")
    await page.keyboard.press("Escape")
    await page.wait_for_url("**/#/fleet*")
    await page.keyboard.press("?")
    await expect(page.locator("main h1")).to_have_text("Help")
    await page.get_by_label("Single keys are on").uncheck()
    await page.keyboard.press("g")
    await expect(page.locator("main h1")).to_have_text("Help")  # single keys are off


async def test_the_keyboard_and_a_screen_reader_go_on_at_the_new_view(visit: Visit, server: PageServer) -> None:
    page = await visit(server.url).open()
    await page.get_by_role("link", name="Health").press("Enter")
    await expect(page.locator("main h1")).to_have_text("Health")
    await expect(page.locator("main")).to_be_focused()
    await expect(page.locator("#polite")).to_have_text("Health")
    await page.keyboard.press("g")
    await expect(page.locator("#polite")).to_have_text("Fleet")
    await page.keyboard.press("Tab")
    await expect(page.locator("#search")).to_be_focused()  # not the first link of the frame again


async def test_an_address_leads_a_colleague_to_the_same_view(visit: Visit, server: PageServer) -> None:
    visitor = visit(server.url)
    page = await visitor.open()
    await page.locator("#search").fill("pump")
    await page.get_by_label("normal, too").check()
    shown = await page.locator("tr[data-row]").all_inner_texts()
    other = await visitor.open(page.url.removeprefix(f"{server.url}/"))
    await expect(other.locator("#search")).to_have_value("pump")
    await expect(other.locator("tr[data-row]")).to_have_count(len(shown))


async def test_a_frozen_view_does_not_move_and_goes_on_afterwards(visit: Visit, server: PageServer) -> None:
    page = await visit(server.url).open("#/fleet?all=1")
    rows = page.locator("tr[data-row]")
    await expect(rows.first).to_be_visible()
    await page.get_by_role("button", name="Freeze").click()
    count = await rows.count()
    server.state.add_window(WindowFacts("new-one", "pumps", "worn", 1, 9_000_000_000_000, 0.9))
    await page.wait_for_timeout(1500)
    assert await rows.count() == count
    await page.get_by_role("button", name="Frozen").click()
    await expect(rows).to_have_count(count + 1)


async def test_samples_that_were_not_simply_measured_are_told_apart(visit: Visit, server: PageServer) -> None:
    page = await visit(server.url).open("#/asset/pump-1")
    await expect(page.locator(".uplot")).to_have_count(2)
    channel = page.locator(".channel").filter(has_text="channel q")
    await expect(channel).to_contain_text("filled")
    await channel.get_by_text("q as a table").click()
    await channel.get_by_role("button", name="older").click()
    await expect(channel.locator("tbody")).to_contain_text("missing")


_SAID = """
async () => {
  const folder = document.querySelector('script[type=module]').src.replace('app.js', '');
  const { sureText, comparedTexts, strongestFirst } = await import(folder + 'core/evidence.js');
  const { sureOf, whyOf } = await import(folder + 'core/fleet.js');
  const { addUp } = await import(folder + 'core/decimal.js');
  const fleet = {
    states: ['worn', 'unknown'], normal: [false, false], state: [0, 1, 0], p: [100, 97, -1],
    reason: ['', 'channel missing', 'flow above normal'], flags: [0, 1, 1],
  };
  const normal = { low: 1, high: 2, deviation: 0.5 };
  const channel = { mean: 3, deviation: 0.25, normal, unit: 'bar' };
  return {
    sure: [1, 0.995, 0.99, 0.4].map(sureText), rows: [0, 1, 2].map((place) => sureOf(fleet, place)),
    flags: [1, 2].map((place) => whyOf(fleet, place).flags),
    narrower: comparedTexts({ ...channel, direction: 'narrower' }),
    above: comparedTexts({ ...channel, direction: 'above' }),
    order: strongestFirst(['a', 'b', 'c'], { channels: [{ name: 'c' }] }),
    sums: [[1.23457e-12, -2.3e-13, 1.00457e-12], [3e22, 1e12, 3.0000000001e22], [1, 2, 3.1]].map(
      ([one, other, total]) => addUp([one, other], total)?.difference === 0n),
  };
}
"""


async def test_how_sure_and_why_are_said_against_the_right_figures(visit: Visit, server: PageServer) -> None:
    page = await visit(server.url).open()
    assert await page.evaluate(_SAID) == {
        "sure": ["> 99 %", "> 99 %", "99 %", "40 %"],
        "rows": ["> 99 %", "–", "–"],
        "flags": ["", "channel missing"],
        "narrower": {"value": "±0.25 bar", "normal": "±0.5 bar"},
        "above": {"value": "3 bar", "normal": "1 … 2 bar"},
        "order": ["c", "a", "b"],
        "sums": [True, True, False],
    }


async def test_a_phone_draws_two_of_many_channels_until_all_are_asked_for(visit: Visit) -> None:
    state = busy_state()
    state.groups["pumps"] = fast_group("pumps")
    state.recent = lambda asset: replace(recent, group="pumps") if (recent := fast_samples(FAST)) else None
    async with serving_page(state) as server:
        phone = await visit(server.url).open("#/asset/pump-1", viewport={"width": 360, "height": 740}, has_touch=True)
        await expect(phone.locator(".uplot")).to_have_count(2)
        await phone.get_by_role("button", name="All 8 channels").click()
        await expect(phone.locator(".uplot")).to_have_count(8)
        desk = await visit(server.url).open("#/asset/pump-1")
        await expect(desk.locator(".uplot")).to_have_count(8)


async def test_of_forty_channels_a_dozen_is_drawn_until_all_are_asked_for(visit: Visit) -> None:
    state = busy_state()
    facts = state.groups["pumps"]
    channels = tuple(replace(facts.channels[0], name=f"channel-{number}") for number in range(40))
    state.groups["pumps"] = replace(facts, channels=channels, units=("Pa",) * 40)
    end = int(time.time())
    values = (1_000_000 + np.arange(40 * 60, dtype=np.float32)).reshape(40, 60)
    state.recent = lambda asset: Recent("pumps", end, values)
    async with serving_page(state) as server:
        page = await visit(server.url).open("#/asset/pump-1")
        await expect(page.locator(".uplot")).to_have_count(12)
        await expect(page.locator(".channel .now").first).to_contain_text("1000060 Pa")
        await page.get_by_role("button", name="All 40 channels").click()
        await expect(page.locator(".uplot")).to_have_count(40)


_NUMBERS = """
async () => {
  const folder = document.querySelector('script[type=module]').src.replace('app.js', '');
  const { tickTexts, valueText } = await import(folder + 'core/evidence.js');
  const { appendSamples, silentFor, withNewer } = await import(folder + 'core/samples.js');
  const trace = (values) => ({ name: 'p', values, filled: [], marks: [], normal: null, now: null });
  const signals = (start_ms, values) =>
    ({ start_ms, period_ms: 10, steps: values.length, window: null, channels: [trace(values)] });
  const late = appendSamples(signals(0, [1, 2, 3]), { start_ms: 10, values: [[5, 6]], late: [[0]] }, 9);
  return {
    ticks: [[1010000, 1012000], [0, 2.5, 5], [-0.0001, 0], [0, 1e-7], [2e9, 4e9]].map(tickTexts),
    values: [101325, 1013250, 0.00012, 2e9, -0.5].map((value) => valueText(value, 'Pa')), plain: valueText(3, '1'),
    newer: withNewer(signals(0, [1, 2, 3]), signals(10, [2, 3, 4, 5]), 9).channels[0].values,
    same: withNewer(signals(0, [1, 2, 3]), signals(-10, [0, 1]), 9).channels[0].values,
    late: appendSamples(late, { start_ms: 10, values: [[5, 6, 7]], late: [[0]] }, 9).channels[0].marks.length,
    silent: [[1, null, null], [null], [1]].map((values) => silentFor(trace(values), 10)).map(String),
  };
}
"""


async def test_numbers_are_written_out_and_samples_that_came_meanwhile_are_kept(
    visit: Visit, server: PageServer
) -> None:
    page = await visit(server.url).open()
    assert await page.evaluate(_NUMBERS) == {
        "ticks": [["1010000", "1012000"], ["0.0", "2.5", "5.0"], ["−0.0001", "0.0000"], ["0", "1e−7"], ["2e9", "4e9"]],
        "values": ["101325 Pa", "1013250 Pa", "0.00012 Pa", "2.00e9 Pa", "−0.5 Pa"],
        "plain": "3",
        "newer": [1, 2, 3, 4, 5],
        "same": [1, 2, 3],
        "late": 1,
        "silent": ["20", "NaN", "0"],
    }


_WRITTEN = """
window.written = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  window.written.push(text);
  return write.call(this, text, ...where);
};
"""


_LAST_TIME_IN = """hours => {
  const last = window.written.filter(text => /^\\d\\d:\\d\\d:/.test(text)).at(-1);
  return last && hours.some(hour => last.startsWith(hour));
}"""


async def test_the_axes_of_the_signals_follow_the_choice_of_zone(visit: Visit, server: PageServer) -> None:
    """Times in two zones on one screen would be worse than either."""
    visitor = visit(server.url)
    context = await visitor.context(timezone_id="Pacific/Kiritimati")  # UTC+14
    await context.add_init_script(_WRITTEN)
    page = await visitor.open("#/asset/pump-1", context)
    await expect(page.locator(".uplot")).to_have_count(2)
    hour = int(await page.evaluate("new Date().getUTCHours()"))
    await page.get_by_role("button", name="Freeze").click()
    await page.wait_for_timeout(500)  # a drawing that was due already
    await page.evaluate("window.written = []")
    await page.get_by_role("button", name="switch to local time").click()
    await page.wait_for_timeout(500)
    local = [f"{(hour + 14 + more) % 24:02}:" for more in (-1, 0, 1)]
    assert await page.evaluate("window.written") == []  # a frozen view stays as it is
    await page.get_by_role("button", name="Frozen").click()
    await page.wait_for_function(
        "hours => window.written.some(text => hours.some(hour => String(text).startsWith(hour)))", arg=local
    )
    await page.get_by_role("button", name="switch to UTC").click()
    await page.wait_for_function(_LAST_TIME_IN, arg=[f"{(hour + more) % 24:02}:" for more in (-1, 0, 1)])
    await page.evaluate("window.written = []")  # what was drawn before the click was in local time
    await page.wait_for_function("() => window.written.some(text => /^\\d\\d:\\d\\d:/.test(text))")
    times = [text for text in await page.evaluate("window.written") if str(text)[2:3] == ":"]
    assert not [text for text in times if text[:3] in local]


async def test_what_came_while_a_view_was_frozen_is_no_gap_afterwards(visit: Visit, server: PageServer) -> None:
    page = await visit(server.url).open("#/asset/pump-1")
    await expect(page.locator(".uplot")).to_have_count(2)
    await page.get_by_role("button", name="Freeze").click()
    await page.wait_for_timeout(8_000)
    await page.get_by_role("button", name="Frozen").click()
    await page.wait_for_timeout(3_000)
    table = page.locator(".channel").filter(has_text="channel p")
    await table.get_by_text("p as a table").click()
    await expect(table.locator("tbody tr")).to_have_count(25)
    assert "missing" not in await table.locator("tbody").inner_text()


async def test_a_tone_that_waits_for_a_click_says_so(visit: Visit, server: PageServer) -> None:
    visitor = visit(server.url)
    context = await visitor.context()
    await context.add_init_script("localStorage.setItem('anchormoe', JSON.stringify({ sound: true }))")
    page = await visitor.open("#/fleet", context)
    note = page.get_by_role("note").filter(has_text="No tone yet")
    await expect(note).to_be_visible()
    await page.get_by_role("button", name="Freeze").click()
    await expect(note).to_have_count(0)


async def test_a_history_of_50_mb_is_bounded_looked_through_and_told(visit: Visit) -> None:
    state = page_state(bounds=Bounds(events=200_000, bytes=8 << 20))
    with_samples(state)
    data, padding = orjson.loads(evidence_event(state).raw), random.Random(3)
    for number in range(5_000):
        data["padding"] = padding.randbytes(4_000).hex()
        head = event_head(f"long-{number}", 1_800_000_000_000 + number, data, version=2)
        state.add_event(StoredEvent(head, orjson.dumps(data)))
    async with serving_page(state) as server:
        visitor = visit(server.url)
        page = await visitor.open("#/health")
        await expect(page.get_by_text("older ones dropped")).to_be_visible()
        await page.goto(f"{server.url}/#/asset/{data['asset']}")
        await expect(page.locator('main td a[href="#/evidence/long-4999"]')).to_be_visible()
        await page.goto(f"{server.url}/#/evidence/long-4999")
        await expect(page.locator('.sum[data-adds="yes"]').first).to_be_visible()
        await page.goto(f"{server.url}/#/evidence/long-0")
        await expect(page.get_by_text("does not hold this event (any more)")).to_be_visible()
        visitor.seen.errors.clear()  # 404
