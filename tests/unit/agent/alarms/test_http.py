"""The API of a worker: a command needs a user's token with the right role, and `by` is that user."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from prometheus_client import CollectorRegistry

from agent.alarms.core.console import Console
from agent.alarms.core.inputs import VERBS, Command
from agent.alarms.http import AlarmApi
from agent.alarms.roles import ROLE_OF_VERB
from agent.web.access import Access
from agent.web.server import listen, serve
from agent.web.users import ROLES, UsersFile, add_user, rotate_token
from tests.support.alarm_log import catalogue, rule

ALARM = "wear:pump-1"
CLAIMS = [{"by": "chief-engineer"}, {"id": "x"}, {"verb": "reset"}, {"time": "x"}, {"alarm": "x"}]
HOSTILE = [b"[]", b"{", b'{"why": 5}', b'{"why": "\\u001b[2J"}', b'{"until": "9999-01-01T00:00:00Z"}']


class Sent:
    def __init__(self) -> None:
        self.commands: list[tuple[str, Command]] = []

    async def __call__(self, console: str, command: Command) -> None:
        self.commands.append((console, command))


@asynccontextmanager
async def served(sent: Sent, access: Access) -> AsyncIterator[httpx.AsyncClient]:
    api = AlarmApi(catalogue(rule()), lambda: [Console("hall")], sent, CollectorRegistry(), access=access)
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with asyncio.TaskGroup() as group, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        task = group.create_task(serve(api.app(), listener))
        yield client
        task.cancel()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "users.yaml"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_without_users_nobody_can_command_not_even_on_loopback() -> None:
    sent = Sent()
    async with served(sent, Access()) as client:
        assert (await client.get("/alarms")).status_code == 200
        for verb in ROLE_OF_VERB:
            answer = await client.post(f"/alarms/{ALARM}/{verb}", json={"by": "chief-engineer", "why": "mine"})
            assert answer.status_code == 401
        assert (await client.post(f"/alarms/{ALARM}/ack", json={}, headers=bearer("guess"))).status_code == 401
    assert sent.commands == []


def test_every_verb_that_a_worker_obeys_has_a_role() -> None:
    assert set(ROLE_OF_VERB) == set(VERBS)


async def test_each_verb_needs_its_role_and_by_is_the_tokens_name(users: Path) -> None:
    sent = Sent()
    tokens = {role: add_user(users, f"{role}-person", role) for role in ROLES}
    allowed: dict[str, set[str]] = {role: set() for role in ROLES}
    async with served(sent, Access(users=UsersFile(users))) as client:
        for role, token in tokens.items():
            assert (await client.get("/alarms", headers=bearer(token))).status_code == 200
            for verb in ROLE_OF_VERB:
                answer = await client.post(f"/alarms/{ALARM}/{verb}", json={"why": "x"}, headers=bearer(token))
                assert answer.status_code in (202, 403)
                allowed[role] |= {verb} if answer.status_code == 202 else set()
    assert allowed == {
        "view": set(),
        "operate": {"ack", "shelve", "unshelve", "comment"},
        "engineer": {"ack", "shelve", "unshelve", "comment", "out-of-service", "in-service", "reset"},
    }
    assert {one.by for _, one in sent.commands} == {"operate-person", "engineer-person"}


@pytest.mark.parametrize("body", CLAIMS)
async def test_the_body_cannot_say_who_when_or_what(users: Path, body: dict[str, str]) -> None:
    sent = Sent()
    token = add_user(users, "ada", "operate")
    async with served(sent, Access(users=UsersFile(users))) as client:
        answer = await client.post(f"/alarms/{ALARM}/ack", json=body, headers=bearer(token))
        assert answer.status_code == 422
        assert (await client.post(f"/alarms/{ALARM}/ack", json={"by": "ada"}, headers=bearer(token))).status_code == 202
    assert [one.by for _, one in sent.commands] == ["ada"]


async def test_the_service_token_reads_and_commands_nothing(users: Path) -> None:
    sent = Sent()
    async with served(sent, Access(lambda: "for-prometheus", UsersFile(users))) as client:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=bearer("for-prometheus"))).status_code == 200
        answer = await client.post(f"/alarms/{ALARM}/ack", json={}, headers=bearer("for-prometheus"))
        assert (answer.status_code, answer.json()["error"]) == (403, "service has the role view; this needs operate")
        assert (await client.get("/livez")).status_code == 200
    assert sent.commands == []


async def test_a_rotated_token_and_a_rotated_service_token_count_at_once(users: Path) -> None:
    service = ["first"]
    old = add_user(users, "ada", "operate")
    async with served(Sent(), Access(lambda: service[0], UsersFile(users))) as client:
        assert (await client.get("/alarms", headers=bearer(old))).status_code == 200
        new = rotate_token(users, "ada")
        assert (await client.get("/alarms", headers=bearer(old))).status_code == 401
        assert (await client.get("/alarms", headers=bearer(new))).status_code == 200
        service[0] = "second"
        assert (await client.get("/alarms", headers=bearer("first"))).status_code == 401
        assert (await client.get("/alarms", headers=bearer("second"))).status_code == 200


@pytest.mark.parametrize("header", ["Bearer", "Basic x", "Bearer ü", "Bearer " + "x" * 5000, "bearer\tx"])
async def test_a_strange_authorization_is_401(users: Path, header: str) -> None:
    add_user(users, "ada", "engineer")
    async with served(Sent(), Access(users=UsersFile(users))) as client:
        answer = await client.get("/alarms", headers={b"Authorization": header.encode("latin-1")})
    assert answer.status_code in (400, 401)


@pytest.mark.parametrize("alarm", ["wear:pump-\x1f1", "wear:pump-1\n", "wear:" + "p" * 600, "wear:\u202epump"])
async def test_an_id_that_no_alarm_has_reaches_no_log(users: Path, alarm: str) -> None:
    sent = Sent()
    token = add_user(users, "ada", "operate")
    async with served(sent, Access(users=UsersFile(users))) as client:
        answer = await client.post(f"/alarms/{quote(alarm, safe='')}/ack", json={}, headers=bearer(token))
    assert answer.status_code in (400, 404, 422)
    assert sent.commands == []


@pytest.mark.parametrize("body", HOSTILE)
async def test_a_hostile_body_is_422(users: Path, body: bytes) -> None:
    sent = Sent()
    headers = bearer(add_user(users, "ada", "operate")) | {"Content-Type": "application/json"}
    async with served(sent, Access(users=UsersFile(users))) as client:
        assert (await client.post(f"/alarms/{ALARM}/shelve", content=body, headers=headers)).status_code == 422
    assert sent.commands == []
