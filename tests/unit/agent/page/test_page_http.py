"""The page over a real socket: who gets what, what is refused, what streams do when things go wrong."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from agent.page import hub
from agent.page.api import Rebuilt
from agent.page.history import Wanted
from agent.page.hub import StreamLimits
from agent.page.openapi import OPERATIONS, openapi_document
from agent.page.state import WindowFacts, event_head
from agent.page.static_files import CONTENT_TYPES, StaticFiles
from agent.page.stored_event import StoredEvent
from agent.web import server as web_server
from agent.web.users import Role, add_user
from tests.support.page_plant import PageServer, alarm, eventually, page_state, serving_page, waves, with_samples

WRITE = {"X-Anchormoe": "1", "Content-Type": "application/json"}
HOSTILE = "<img src=x onerror=alert(1)>"


@asynccontextmanager
async def stream(server: PageServer, query: str = "", **options: Any) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """Events of a stream, parsed."""

    async def events(response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
        name = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, orjson.loads(line[6:])

    async with server.client() as client, client.stream("GET", f"/api/stream{query}", **options) as response:
        assert response.status_code == 200
        async with aclosing(events(response)) as parsed:  # type: ignore[type-var]
            yield parsed


async def until(events: AsyncIterator[tuple[str, Any]], wanted: str) -> Any:
    async with asyncio.timeout(60):
        async for name, data in events:
            if name == wanted:
                return data
    raise AssertionError(f"the stream ended without {wanted}")


def user(path: Path, name: str, role: Role) -> str:
    return add_user(path, name, role)


async def log_in(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("/session", json={"token": token}, headers={"X-Anchormoe": "1"})


async def test_every_route_of_the_document_answers() -> None:
    async with serving_page() as server, server.client() as client:
        id = server.state.history.find(Wanted(type="state"), 1)[0][0].id
        query = {"id": id, "asset": "pump-1", "from": "0", "to": "2000000000000"}
        for operation in OPERATIONS:
            if operation.method != "get" or operation.answer is None:
                continue
            names = {name.rstrip("!") for name, _ in operation.query} & query.keys()
            given = {name: query[name] for name in names} | ({"id": "pump-1"} if "asset" in operation.path else {})
            answer = await client.get(operation.path, params=given)
            assert answer.status_code == 200, (operation.path, answer.text)
            operation.answer.model_validate_json(answer.content, strict=False)
            assert answer.headers["cache-control"] == "no-store"


async def test_an_event_of_every_kind_is_shown_as_it_was_published() -> None:
    async with serving_page() as server, server.client() as client:
        heads = (await client.get("/api/events", params={"limit": 500})).json()["events"]
        assert {head["type"] for head in heads} >= {"state", "gap", "channel_dropout", "no_data", "model_refused"}
        for head in heads:
            detail = (await client.get("/api/event", params={"id": head["id"]})).json()
            assert detail["readable"]
            assert detail["data"]["asset"] == head["asset"]
            assert detail["sum"] is None or detail["sum"]["exact"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "plant"])
async def test_another_name_for_this_machine_is_refused(host: str) -> None:
    async with serving_page() as server, server.client() as client:
        for path in ("/", "/api/fleet", "/api/session", "/api/stream"):
            assert (await client.get(path, headers={"Host": host})).status_code == 421


async def test_pages_of_other_sites_read_and_write_nothing_but_may_link_to_the_start_page() -> None:
    cross = {"Sec-Fetch-Site": "cross-site"}
    opened = {**cross, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    async with serving_page(static=some_files()) as server, server.client() as client:
        assert (await client.get("/api/fleet", headers=cross)).status_code == 403
        assert (await client.get("/api/fleet", headers=opened)).status_code == 403
        assert (await client.post("/api/alarms/ack", json={"alarms": ["a"]}, headers=cross)).status_code == 403
        assert (await client.get("/", headers=cross)).status_code == 403
        assert (await client.get("/", headers=opened)).status_code == 200


class _Folder:
    """Files of a page that is not ours."""

    def __init__(self, name: str, content: "dict[str, Any] | bytes") -> None:
        self.name, self._content = name, content

    def is_dir(self) -> bool:
        return isinstance(self._content, dict)

    def iterdir(self) -> "list[_Folder]":
        assert isinstance(self._content, dict)
        return [_Folder(name, content) for name, content in self._content.items()]

    def read_bytes(self) -> bytes:
        assert isinstance(self._content, bytes)
        return self._content


def some_files() -> StaticFiles:
    tree = {"index.html": b"<script src=/s/__VERSION__/views/a.js>", "views": {"a.js": b"1"}, "secret.py": b"no"}
    return StaticFiles(_Folder("static", tree))  # type: ignore[arg-type]


async def test_every_route_is_guarded_and_no_answer_invites_another_site() -> None:
    """Also those that do not exist, and answers that refuse."""
    paths = [(one.method.upper(), one.path.replace("{verb}", "ack")) for one in OPERATIONS] + [("GET", "/nothing")]
    async with serving_page() as server, server.client() as client:
        for method, path in paths:
            content = None if method == "GET" else b"{}"
            for wrong, status in (({"Host": "evil.example"}, 421), ({"Sec-Fetch-Site": "cross-site"}, 403)):
                headers = {**({} if content is None else {"Content-Type": "application/json"}), **wrong}
                answer = await client.request(method, path, content=content, headers=headers)
                assert answer.status_code == status, (method, path)
                assert "default-src 'none'" in answer.headers["content-security-policy"]
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_window_that_takes_too_long_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.page.app._REBUILD_S", 0.05)
    begun = asyncio.Event()

    async def never(event: StoredEvent) -> Rebuilt:
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    async with serving_page(rebuild=never) as server, server.client() as client:
        id = server.state.history.find(Wanted(type="state"), 1)[0][0].id
        first = asyncio.create_task(client.get("/api/rebuild", params={"id": id}))
        await begun.wait()
        assert (await client.get("/api/rebuild", params={"id": id})).status_code == 429
        answer = await first
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")


async def test_static_files_have_their_type_and_are_kept_by_version() -> None:
    files = some_files()
    async with serving_page(static=files) as server, server.client() as client:
        page = await client.get("/")
        assert f"/s/{files.version}/views/a.js" in page.text
        assert "require-trusted-types-for 'script'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        script = await client.get(f"/s/{files.version}/views/a.js")
        assert script.headers["content-type"] == CONTENT_TYPES[".js"]
        assert "immutable" in script.headers["cache-control"]
        assert script.headers["x-content-type-options"] == "nosniff"
        for path in ("secret.py", "%2e%2e/state.py", "views"):
            assert (await client.get(f"/s/{files.version}/{path}")).status_code in (400, 404)
        assert (await client.get("/s/0/views/a.js")).status_code == 404


async def test_without_users_everybody_here_reads_and_nobody_commands() -> None:
    async with serving_page() as server, server.client() as client:
        session = (await client.get("/api/session")).json()
        assert (session["role"], session["login"], session["commands"]) == ("view", False, [])
        refused = await client.post("/api/alarms/ack", json={"alarms": ["wear:pump-1"]}, headers=WRITE)
        assert refused.status_code == 403
        assert server.sent == []


async def test_with_users_nothing_is_told_before_log_in(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    token = user(users, "ada", "operate")
    async with serving_page(users=users) as server, server.client() as client:
        before = (await client.get("/api/session")).json()
        assert (before["role"], before["namespace"], before["login"]) == (None, "", True)
        for operation in OPERATIONS:
            if operation.method == "get" and operation.path != "/api/session":
                assert (await client.get(operation.path)).status_code == 401, operation.path
        done = await log_in(client, token)
        assert done.json()["user"] == "ada"
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert (await client.get("/api/fleet")).status_code == 200
        await client.request("DELETE", "/session", headers=WRITE, content="{}")
        assert (await client.get("/api/fleet")).status_code == 401


async def test_a_wrong_token_is_refused_and_the_sixth_try_must_wait(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    token = user(users, "ada", "view")
    async with serving_page(users=users) as server, server.client() as client:
        tries = [(await log_in(client, f"amt_wrong{n}")).status_code for n in range(6)]
        assert tries == [401] * 5 + [429]
        assert (await log_in(client, token)).status_code == 429
        bearer = {"Authorization": f"Bearer {token}"}
        assert (await client.get("/api/fleet", headers=bearer)).status_code == 200


async def test_a_person_who_was_removed_is_out_at_once(tmp_path: Path) -> None:
    from agent.web.users import remove_user

    users = tmp_path / "users.yaml"
    token = user(users, "ada", "view")
    async with serving_page(users=users) as server, server.client() as client:
        await log_in(client, token)
        assert (await client.get("/api/fleet")).status_code == 200
        remove_user(users, "ada")
        assert (await client.get("/api/fleet")).status_code == 401


async def test_two_servers_on_one_machine_do_not_log_each_others_users_out(tmp_path: Path) -> None:
    """Browsers, and this client, give a cookie to every port of a host."""
    users = tmp_path / "users.yaml"
    token = user(users, "ada", "view")
    client = httpx.AsyncClient(trust_env=False, timeout=60)
    async with serving_page(users=users) as one, serving_page(users=users) as other, client as browser:
        for server in (one, other):
            done = await browser.post(f"{server.url}/session", json={"token": token}, headers={"X-Anchormoe": "1"})
            assert done.status_code == 200
        for server in (one, other):
            assert (await browser.get(f"{server.url}/api/fleet")).status_code == 200


@pytest.mark.parametrize("how", ["removed", "logged out"])
async def test_whoever_has_left_does_not_go_on_watching(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream may be open for weeks: it ends with the session that opened it."""
    from agent.web.users import remove_user

    monkeypatch.setattr(hub, "HEARTBEAT_S", 0.1)
    users = tmp_path / "users.yaml"
    token = user(users, "ada", "view")
    async with serving_page(users=users) as server, server.client() as client:
        cookie = (await log_in(client, token)).headers["set-cookie"].split(";")[0]
        async with stream(server, headers={"Cookie": cookie}) as events:
            for _ in range(3):
                await until(events, "h")
            if how == "removed":
                remove_user(users, "ada")
            else:
                await client.request("DELETE", "/session", headers=WRITE, content="{}")
            assert await until(events, "bye") == {"reason": "the session has ended"}
            async with asyncio.timeout(60):
                assert [name async for name, _ in events] == []
        await eventually(lambda: not len(server.hub))


async def test_a_command_is_by_the_session_and_needs_the_role_and_the_header(tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    tokens = {name: user(users, name, role) for name, role in (("vera", "view"), ("ada", "operate"))}  # type: ignore[arg-type]
    body = {"alarms": ["wear:pump-1"], "why": "seen"}
    async with serving_page(users=users) as server:
        async with server.client() as client:
            await log_in(client, tokens["vera"])
            assert (await client.post("/api/alarms/ack", json=body, headers=WRITE)).status_code == 403
        async with server.client() as client:
            await log_in(client, tokens["ada"])
            assert (await client.post("/api/alarms/ack", json=body)).status_code == 403  # without the header
            assert (await client.post("/api/alarms/ack", json={**body, "by": "eve"}, headers=WRITE)).status_code == 422
            assert (await client.post("/api/alarms/shelve", json=body, headers=WRITE)).status_code == 422
            assert (await client.post("/api/alarms/reset", json=body, headers=WRITE)).status_code == 403
            assert (await client.post("/api/alarms/explode", json=body, headers=WRITE)).status_code == 404
            done = await client.post("/api/alarms/ack", json=body, headers=WRITE)
            assert (done.status_code, done.json()["by"]) == (202, "ada")
    assert server.sent == [("ada", "ack", ("wear:pump-1",))]


async def test_a_stream_begins_with_a_heartbeat_and_gives_what_changed() -> None:
    async with serving_page() as server, server.client() as client:
        seq = (await client.get("/api/fleet")).json()["seq"]
        async with stream(server, f"?after={seq}") as events:
            assert (await anext(events))[0] == "h"
            later = 1_800_000_000_000
            server.state.add_window(WindowFacts("pump-1", "pumps", "b", later, later, 0.875))
            delta = await until(events, "d")
            named = server.state.fleet.states.index("b")
            assert [row[:3] for row in delta["rows"]] == [[0, named, 88]]
            server.state.add_alarm(alarm())
            await until(events, "a")
            fleet = (await client.get("/api/fleet")).json()
            assert fleet["alarm"][0] == 3 + 4


async def test_a_client_of_an_earlier_start_is_told_to_begin_again() -> None:
    async with serving_page() as server:
        for query, options in (("?after=1", {}), ("", {}), ("?after=1", {"headers": {"Last-Event-ID": "99999999999"}})):
            async with stream(server, query, **options) as events:
                assert [(await anext(events))[0] for _ in range(2)] == ["h", "reset"]


async def test_samples_of_the_asked_asset_follow() -> None:
    state = page_state()
    with_samples(state)
    state.recent = waves
    async with serving_page(state) as server:
        async with stream(server, "?asset=pump-1") as events:
            first = await until(events, "s")
            assert (len(first["values"]), len(first["values"][0]) >= 40) == (2, True)
            assert first["values"][1][10] is None
            again = await until(events, "s")
            assert again["start_ms"] > first["start_ms"]
        async with server.client() as client:
            assert (await client.get("/api/stream?asset=nobody")).status_code == 404


async def test_everybody_gets_the_same_events_and_samples_which_are_encoded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For each client anew they would hold up the agent's loop where fifty people look at one asset."""
    state = page_state()
    with_samples(state)
    state.recent = waves
    encoded: list[str] = []
    message = hub.message
    monkeypatch.setattr(hub, "message", lambda kind, *rest: encoded.append(kind) or message(kind, *rest))  # type: ignore[func-returns-value]
    async with serving_page(state) as server:
        query = f"?asset=pump-1&after={state.fleet.seq}"
        async with stream(server, query) as one, stream(server, query) as other:
            await eventually(lambda: len(server.hub) == 2)
            for streamed in (one, other):
                await until(streamed, "s")
            encoded.clear()
            for number in range(2):
                head = event_head(f"e-{number}", 1_800_000_000_000, {"asset": "pump-1", "group": "pumps"}, version=2)
                state.add_event(StoredEvent(head, b"{}"))
                for streamed in (one, other):
                    assert [found["id"] for found in await until(streamed, "e")] == [f"e-{number}"]
            first, second = [await until(streamed, "s") for streamed in (one, other)]
            assert (first["asset"], len(first["values"])) == (second["asset"], len(second["values"])) == ("pump-1", 2)
    assert encoded.count("e") < 4  # 2, and 3 where a busy machine let one of them fall behind


async def test_a_lost_link_is_told_at_once_and_not_taken_for_no_alarms() -> None:
    async with serving_page() as server, server.client() as client:
        async with stream(server) as events:
            assert (await until(events, "h"))["feed"]["link"] == "live"
            server.state.set_link("lost", "Kafka is away")
            server.state.set_alarm_link("lost", "Kafka is away")
            async with asyncio.timeout(2):
                assert (await until(events, "h"))["feed"]["link"] == "lost"
        alarms = (await client.get("/api/alarms")).json()
        assert (alarms["link"], alarms["reason"], alarms["alarms"]) == ("lost", "Kafka is away", [])


async def test_of_eight_tabs_four_stream_and_the_others_may_ask() -> None:
    async with serving_page() as server, server.client() as asking:
        async with asyncio.TaskGroup() as group:
            leave = asyncio.Event()

            async def tab() -> None:
                async with stream(server) as events:
                    await anext(events)
                    await leave.wait()

            tabs = [group.create_task(tab()) for _ in range(4)]
            await eventually(lambda: len(server.hub) == 4)
            for _ in range(4):
                refused = await asking.get("/api/stream")
                assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
                assert (await asking.get("/api/fleet")).status_code == 200
            leave.set()
            await asyncio.wait(tabs)
        await eventually(lambda: not len(server.hub))
        async with stream(server) as events:
            assert (await anext(events))[0] == "h"


async def test_twenty_open_streams_end_within_a_moment(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "_GRACE_S", 60)  # for what would have to be cut off
    async with serving_page(limits=StreamLimits(per_session=50)) as server:
        opened, ended = [], []

        async def watch() -> None:
            async with stream(server) as events:
                opened.append(await anext(events))
                ended.append([name async for name, _ in events][-1])

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(watch())
            await eventually(lambda: len(opened) == 20)
            assert server.stop is not None
            with caplog.at_level(logging.WARNING):
                took_s = await server.stop()
        assert ended == ["bye"] * 20
        assert took_s < 20  # 0.3 s on a machine that has nothing else to do
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_stream_outlives_the_time_limit_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.web import guard
    from agent.web.connections import LimitedConfig

    monkeypatch.setattr(guard, "_HANDLING_S", 0.3)
    monkeypatch.setattr(LimitedConfig, "request_s", 1.5)
    monkeypatch.setattr(hub, "HEARTBEAT_S", 0.2)
    async with serving_page() as server, stream(server) as events:
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(60):
            while asyncio.get_running_loop().time() - begun < 3:
                await until(events, "h")


async def test_names_with_markup_stay_text_in_json_and_never_reach_html() -> None:
    state = page_state()
    with_samples(state)
    state.add_window(WindowFacts(HOSTILE, "pumps", f"</script>{HOSTILE}", 1, 2, 0.5))
    async with serving_page(state, static=some_files()) as server, server.client() as client:
        fleet = await client.get("/api/fleet")
        assert HOSTILE in fleet.json()["assets"]
        assert fleet.headers["content-type"] == "application/json"
        detail = await client.get("/api/asset", params={"id": HOSTILE})
        assert detail.json()["asset"] == HOSTILE
        assert HOSTILE not in (await client.get("/")).text
        gone = await client.get("/api/asset", params={"id": HOSTILE + "?"})
        assert (gone.status_code, gone.headers["content-type"]) == (404, "application/json")


@pytest.mark.parametrize(
    "query",
    [
        "?limit=-1",
        "?limit=99999999999999999999",
        "?from=5&to=5",
        "?from=1e3",
        "?limit=%00",
        "?limit=²",
        "?before=a%0d%0ab",
    ],
)
async def test_wrong_parameters_are_told_or_find_nothing(query: str) -> None:
    async with serving_page() as server, server.client() as client:
        answer = await client.get(f"/api/events{query}")
        assert answer.status_code == 422 or answer.json()["events"] == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"token": 5}', b'{"token": "a", "more": 1}', b"\xff"])
async def test_a_wrong_body_is_told_without_repeating_it(body: bytes, tmp_path: Path) -> None:
    users = tmp_path / "users.yaml"
    user(users, "ada", "view")
    async with serving_page(users=users) as server, server.client() as client:
        answer = await client.post("/session", content=body, headers=WRITE)
        assert answer.status_code == 422


async def test_the_fleet_of_ten_thousand_fits_into_80_kb() -> None:
    state = page_state()
    for number in range(10_000):
        state.add_window(WindowFacts(f"pump-{number:05}", "pumps", "abc"[number % 3], 1_000 * number, 10**12, 0.5))
    state.fleet.advance()
    async with serving_page(state) as server, server.client() as client:
        async with client.stream("GET", "/api/fleet") as answer:
            raw = b"".join([part async for part in answer.aiter_raw()])
        assert answer.headers["content-encoding"] == "gzip"
        assert len(raw) < 80_000
        assert len((await client.get("/api/fleet")).json()["assets"]) == 10_000


def test_the_document_refers_to_nothing_that_is_missing() -> None:
    document = openapi_document()
    text = orjson.dumps(document).decode()
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= document["components"]["schemas"].keys()
