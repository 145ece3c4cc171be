"""Which addresses of Redis are understood, and what is said about the others."""

import pytest

from connectors.redis.address import RedisAddress, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", RedisAddress("single", tls=False, hosts=(("localhost", 6379),))),
        ("rediss://redis.example.org:6380/2", RedisAddress("single", True, (("redis.example.org", 6380),), "", 2)),
        ("redis://[::1]:7000/0", RedisAddress("single", False, (("::1", 7000),))),
        ("unix:///run/redis.sock", RedisAddress("single", False, ())),
        ("redis+cluster://a:7000,b:7001", RedisAddress("cluster", False, (("a", 7000), ("b", 7001)))),
        ("rediss+cluster://a,b/0", RedisAddress("cluster", True, (("a", 6379), ("b", 6379)))),
        ("redis+sentinel://a,b:1/plant", RedisAddress("sentinel", False, (("a", 26379), ("b", 1)), "plant")),
        ("rediss+sentinel://a/plant/3", RedisAddress("sentinel", True, (("a", 26379),), "plant", 3)),
    ],
)
def test_addresses_of_all_topologies_are_understood(url: str, address: RedisAddress) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://localhost", "not a Redis address"),
        ("redis+swarm://localhost", "not a Redis address"),
        ("redis://a,b", "several hosts need"),
        ("redis://localhost/plant", "number of a database"),
        ("redis+cluster://a/1", "no numbered databases"),
        ("redis+sentinel://a", "name of the master is missing"),
        ("redis+sentinel://a//1", "name of the master is missing"),
        ("redis://", "name:port"),
        ("redis://a:99999", "name:port"),
        ("redis://a:0", "name:port"),
        ("redis+cluster://a,,b", "name:port"),
        ("redis://user:hush@host", "name:port"),
        ("unix://run/redis.sock", "whole path"),
        ("", "not a Redis address"),
    ],
)
def test_other_addresses_are_refused_without_repeating_them(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        parse_address(url)
    assert "hush" not in str(refused.value)
