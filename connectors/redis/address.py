"""Addresses of Redis: one server, a cluster, or servers behind sentinels. Pure.

    redis://host:port/number, rediss://host:port/number      one server, without and with TLS
    unix:///path                                             one server on this machine
    redis+cluster://host:port,host:port                      any nodes of a Redis Cluster, which name the others
    redis+sentinel://host:port,host:port/master/number       sentinels, and the name under which they know the master

`rediss+cluster://` and `rediss+sentinel://` are the same with TLS. The number of the database may be left out.
"""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

_HOST = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s,/:@\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_PATHS = {
    "single": r"/?|/(?P<number>[0-9]+)",
    "cluster": r"/?|/0",
    "sentinel": r"/(?P<master>[^\s/]+)(/(?P<number>[0-9]+))?",
}
_DEFAULT_PORTS = {"single": 6379, "cluster": 6379, "sentinel": 26379}

Topology = Literal["single", "cluster", "sentinel"]


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """`hosts` are those to ask first; `master` is the sentinels' name for it."""

    topology: Topology
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    master: str = ""
    database: int = 0


def parse_address(url: str) -> RedisAddress:
    """Raises ValueError, which says what is wrong without repeating the address: it may contain a password."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        if not parts.path or parts.netloc:
            raise ValueError("a socket needs its whole path: unix:///path")
        return RedisAddress("single", tls=False, hosts=())
    scheme, _, kind = parts.scheme.partition("+")
    topology = _topology(kind)
    if scheme not in ("redis", "rediss") or topology is None or parts.query or parts.fragment:
        raise ValueError("not a Redis address")
    found = re.fullmatch(_PATHS[topology], parts.path)
    if found is None:
        raise ValueError(_WRONG_PATHS[topology])
    hosts = tuple(_host(host, _DEFAULT_PORTS[topology]) for host in parts.netloc.split(","))
    if topology == "single" and len(hosts) > 1:
        raise ValueError("several hosts need redis+cluster:// or redis+sentinel://")
    named = found.groupdict()
    return RedisAddress(topology, scheme == "rediss", hosts, named.get("master") or "", int(named.get("number") or 0))


_WRONG_PATHS = {
    "single": "what follows the host must be the number of a database",
    "cluster": "a cluster has no numbered databases",
    "sentinel": "the name of the master is missing: redis+sentinel://host:port/master",
}


def _topology(kind: str) -> Topology | None:
    match kind:
        case "":
            return "single"
        case "cluster":
            return "cluster"
        case "sentinel":
            return "sentinel"
    return None


def _host(text: str, default_port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    port = int(found["port"] or default_port) if found else 0
    if found is None or not 0 < port < 65536:
        raise ValueError("a host must be name:port")
    return found["host"].strip("[]"), port
