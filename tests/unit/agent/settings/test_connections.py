"""Key prefixes and servers from the settings."""

from typing import Any

import pytest

from agent.settings import Plant, RedisStoreSettings
from agent.settings.connections import server_of, window_prefix
from connectors.records import Partition
from connectors.redis.keys import claim_key

STORE = RedisStoreSettings(kind="redis", url="redis://cache:6379/0")


def plant(namespace: str = "hall", group: str | None = None) -> Plant:
    written: dict[str, Any] = {
        "namespace": namespace,
        "source": {"kind": "kafka", "bootstrap": "broker:9092", "topics": ["sensors"], "group": group},
        "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": "bundle"}}],
        "store": {"kind": "redis", "url": "redis://cache:6379/0"},
        "sinks": [{"kind": "kafka", "topics": {"events": "e", "states": "s", "dead_letters": "d"}}],
    }
    return Plant.model_validate(written)


def test_two_consumer_groups_of_one_namespace_have_keys_of_their_own() -> None:
    """They would fence each other in turns otherwise."""
    prefixes = {window_prefix(plant(group=group), STORE) for group in (None, "staging", "staging-2")}
    assert len(prefixes) == 3


@pytest.mark.parametrize("group", [None, "anchormoe-hall"])
def test_the_keys_of_the_default_group_are_those_of_earlier_versions(group: str | None) -> None:
    assert window_prefix(plant(group=group), STORE) == "anchormoe:hall"


def test_the_keys_of_one_group_are_never_below_those_of_another() -> None:
    """Whatever its name: braces are the hash tag of Redis Cluster, and a scan must not find another group's windows."""
    at = Partition("sensors", 3)
    for group in ("hall", "{sensors:3}", "a:b", "*", "hall:{sensors:3}"):
        key = claim_key(window_prefix(plant(group=group), STORE), at)
        assert key.startswith("anchormoe:hall:")
        assert not key.startswith("anchormoe:hall:{")
        assert key.count("{") == key.count("}") == 1
        assert "*" not in key


def test_sentinels_get_the_login_that_is_theirs() -> None:
    written = {
        "kind": "redis",
        "url": "rediss+sentinel://a:1,b:2/plant",
        "username": "agent",
        "password": {"env": "SERVERS"},
        "sentinels": {"username": "looker", "password": {"env": "SENTINELS"}, "tls": False},
    }
    store = RedisStoreSettings.model_validate(written)
    server = server_of(store)
    assert (server.username, server.sentinel_username, server.sentinel_tls) == ("agent", "looker", False)
    assert server.password != server.sentinel_password
