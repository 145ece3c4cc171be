"""Inspecting a cluster leaves no connection open."""

from pathlib import Path

from connectors.kafka.cluster import Cluster
from connectors.kafka.inspection import inspect_cluster
from connectors.probe import Outage
from tests.support.services.certificates import Authority
from tests.support.tls_connections import open_connections, slow_to_close

REPLY_TO_ANOTHER_REQUEST = b"\0\0\0\4\0\0\0\7"


async def test_a_tls_connection_is_closed_when_the_inspection_returns(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with slow_to_close(authority, REPLY_TO_ANOTHER_REQUEST) as address:
        cluster = Cluster(address, protocol="SSL", ca_file=str(authority.certificate))
        assert isinstance(await inspect_cluster(cluster, [], timeout_s=20), Outage)
        assert open_connections() == []
