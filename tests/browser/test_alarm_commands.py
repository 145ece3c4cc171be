"""Alarms by mouse and by keyboard: choose, acknowledge, shelve with a reason and an end, and see what became of it."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Page, expect

from agent.web.users import add_user
from tests.browser.conftest import Visit
from tests.support.page_plant import PageServer, alarm, audit_record, busy_state, serving_page


@pytest_asyncio.fixture(loop_scope="session")
async def guarded(tmp_path: Path) -> AsyncIterator[tuple[PageServer, dict[str, str]]]:
    """A server with one user per role, and their tokens."""
    users = tmp_path / "users.yaml"
    tokens = {role: add_user(users, role, role) for role in ("view", "operate", "engineer")}
    async with serving_page(busy_state(), users=users) as server:
        yield server, tokens


async def log_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Log out")).to_be_visible()


async def test_an_alarm_is_acknowledged_by_the_keyboard_alone(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    server, tokens = guarded
    page = await visit(server.url).open("#/alarms")
    await log_in(page, tokens["operate"])
    await expect(page.locator("tr[data-row]")).to_have_count(3)
    await page.locator("body").press("j")
    await page.keyboard.press("x")
    await page.keyboard.press("a")
    await expect(page.get_by_role("dialog")).to_contain_text("Acknowledge wear:pump-1")
    await page.keyboard.type("on my way")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Acknowledge wear:pump-1: sent")).to_be_visible()
    assert server.sent == [("operate", "ack", ("wear:pump-1",))]
    server.state.add_audit(audit_record("c-wear:pump-1"))
    server.state.add_alarm(alarm("wear:pump-1", state="acknowledged", acknowledged=True))
    await expect(page.get_by_text("Acknowledge wear:pump-1: done")).to_be_visible()
    await expect(page.locator("tr[data-row]").filter(has_text="wear").get_by_text("acknowledged")).to_be_visible()


async def test_an_alarm_is_shelved_by_the_keyboard_alone(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    """Nothing is chosen: the row that has the focus is meant."""
    server, tokens = guarded
    page = await visit(server.url).open("#/alarms")
    await log_in(page, tokens["operate"])
    await expect(page.locator("tr[data-row]")).to_have_count(3)
    await page.locator("body").press("j")
    await page.keyboard.press("s")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Shelve wear:pump-1")
    await page.keyboard.type("waits for a part")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Space")
    await expect(dialog.get_by_label("15 minutes")).to_be_checked()
    await page.keyboard.press("ArrowDown")
    await expect(dialog.get_by_label("1 hour")).to_be_checked()
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    assert server.sent == [("operate", "shelve", ("wear:pump-1",))]


async def test_a_refused_command_shows_the_reason_of_the_audit(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    server, tokens = guarded
    page = await visit(server.url).open("#/alarms")
    await log_in(page, tokens["operate"])
    await page.get_by_label("choose noise:pump-1").check()
    await page.get_by_role("button", name="Acknowledge (1)").click()
    await page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    await expect(page.locator("ul.chips li.done")).to_contain_text("sent")
    server.state.add_audit(audit_record("c-noise:pump-1", "refused", reason="is acknowledged already"))
    await expect(page.locator("li.refused")).to_contain_text("refused, is acknowledged already")


async def test_shelving_needs_a_reason_and_an_end_and_the_shelf_warns_before_it(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    server, tokens = guarded
    page = await visit(server.url).open("#/alarms")
    await log_in(page, tokens["operate"])
    first, last = page.get_by_label("choose wear:pump-1"), page.get_by_label("choose noise:pump-1")
    await first.check()
    await last.click(modifiers=["Shift"])
    await expect(page.get_by_text("3 chosen")).to_be_visible()
    await page.get_by_role("button", name="Shelve (3)").click()
    dialog = page.get_by_role("dialog")
    shelve = dialog.get_by_role("button", name="Shelve")
    await shelve.click()
    await expect(dialog.get_by_role("alert")).to_contain_text("needs a reason")
    await dialog.get_by_label("Reason").fill("waits for a part")
    await shelve.click()
    await expect(dialog.get_by_role("alert")).to_contain_text("needs an end")
    await dialog.get_by_label("or minutes").fill("6000")
    await shelve.click()
    await expect(dialog.get_by_role("alert")).to_contain_text("longest shelving")
    await dialog.get_by_label("1 hour").check()
    await shelve.click()
    await expect(dialog).to_have_count(0)
    assert [(by, verb, len(alarms)) for by, verb, alarms in server.sent] == [("operate", "shelve", 3)]
    await page.goto(f"{server.url}/#/shelf")
    row = page.locator("tr[data-row]")
    await expect(row).to_have_count(1)  # no longer the three of the view before
    await expect(row).to_contain_text("ada: waits for a part")
    await expect(row).to_contain_text("ends in")


async def test_the_end_of_the_shift_is_a_full_hour_of_the_plant_and_stays_chosen(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    """It was a number of minutes, which was no longer that of the choice once a minute had passed."""
    server, tokens = guarded
    visitor = visit(server.url)
    page = await visitor.open("#/alarms", await visitor.context(timezone_id="Asia/Kolkata"))  # UTC+5:30
    await expect(page.get_by_label("Token")).to_be_focused()
    await log_in(page, tokens["operate"])
    await page.get_by_label("choose wear:pump-1").check()
    await page.get_by_role("button", name="Shelve (1)").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("end of the shift").check()
    await expect(dialog).to_contain_text(re.compile(r"Until (\d{4}-\d\d-\d\d )?(00|08|16):30:00 UTC\."))
    await page.evaluate("const real = Date.now; Date.now = () => real() + 61000")
    await page.wait_for_timeout(1_500)
    await expect(dialog.get_by_label("end of the shift")).to_be_checked()
    await dialog.get_by_label("15 minutes").check()
    await expect(dialog.get_by_label("or minutes")).to_have_value("15")


async def test_somebody_who_may_only_look_is_offered_no_command(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    server, tokens = guarded
    page = await visit(server.url).open("#/alarms")
    await log_in(page, tokens["view"])
    await expect(page.get_by_text("You may look")).to_be_visible()
    assert await page.get_by_role("button", name="Acknowledge").count() == 0
    await page.locator("body").press("j")
    await page.keyboard.press("a")
    assert await page.get_by_role("dialog").count() == 0


async def test_an_engineer_may_take_an_alarm_out_of_service(
    visit: Visit, guarded: tuple[PageServer, dict[str, str]]
) -> None:
    server, tokens = guarded
    page = await visit(server.url).open("#/alarms")
    await log_in(page, tokens["engineer"])
    await page.get_by_label("choose wear:pump-1").check()
    await page.get_by_role("button", name="Out of service (1)").click()
    await page.get_by_label("Reason").fill("sensor is being changed")
    await page.get_by_role("dialog").get_by_role("button", name="Out of service").click()
    await expect(page.get_by_text("Out of service wear:pump-1: sent")).to_be_visible()
    assert server.sent == [("engineer", "out-of-service", ("wear:pump-1",))]


async def test_a_new_high_alarm_is_told_to_a_screen_reader_at_once(visit: Visit) -> None:
    state = busy_state()
    async with serving_page(state) as server:
        page = await visit(server.url).open()
        await expect(page.locator(".urgent li")).to_have_count(3)
        state.add_alarm(alarm("fire:pump-1"))
        await expect(page.locator("#assertive")).to_contain_text("fire at pump-1")
        await expect(page.locator(".urgent")).to_contain_text("fire")


async def test_an_alarm_shows_the_evidence_that_raised_it_and_the_strongest_since(visit: Visit) -> None:
    state = busy_state()
    spans = [{"start": "2026-11-18T10:00:00Z", "end": "2026-11-18T10:00:02Z", "channels": ["p"], "contribution": 2.5}]
    evidence = {"class": "worn", "context": 0.5, "spans": spans, "remainder": -0.25}
    event = {"event": "e-1", "end": "2026-11-18T10:00:02Z", "probability": 0.8, "text": "p above", "evidence": evidence}
    stronger = {**event, "event": "e-2", "probability": 0.9, "evidence": {**evidence, "context": 1.5}}
    state.add_alarm(alarm("wear:pump-1", raised_by=event, strongest=stronger))
    async with serving_page(state) as server:
        page = await visit(server.url).open("#/alarms/wear%3Apump-1")
        falls = page.get_by_role("img", name="Waterfall")
        await expect(falls).to_have_count(2)
        assert [await one.get_attribute("aria-label") for one in await falls.all()] == [
            f"Waterfall of 3 terms to {total}; the table below has the same numbers" for total in ("+2.75", "+3.75")
        ]
        links = page.get_by_role("link", name="All the evidence")
        assert [await one.get_attribute("href") for one in await links.all()] == ["#/evidence/e-1", "#/evidence/e-2"]
        state.add_alarm(alarm("wear:pump-1", raised_by={**event, "evidence": {"spans": None}}, strongest=None))
        await expect(falls).to_have_count(0)
        await expect(page.get_by_role("heading", name="Raised by")).to_be_visible()


async def test_an_alarm_that_is_opened_among_many_is_seen(visit: Visit) -> None:
    state = busy_state()
    for number in range(120):
        state.add_alarm(alarm(f"rule-{number:03}:pump-1", priority="low"))
    async with serving_page(state) as server:
        page = await visit(server.url).open("#/alarms")
        await page.get_by_role("link", name="rule-119").click()
        heading = page.get_by_role("heading", name="rule-119:pump-1")
        await expect(heading).to_be_in_viewport()
        await page.keyboard.press("Escape")
        await expect(heading).to_have_count(0)
        assert page.url.endswith("#/alarms")
