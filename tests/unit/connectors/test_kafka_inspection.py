"""Asking a cluster about itself: what is left behind afterwards."""

from pathlib import Path

from connectors.kafka.cluster import Cluster
from connectors.kafka.inspection import inspect_cluster
from connectors.probe import Outage
from tests.support.services.certificates import Authority
from tests.unit.connectors.slow_goodbye import open_connections, slow_to_hang_up

TO_ANOTHER_QUESTION = b"\0\0\0\4\0\0\0\7"


async def test_a_connection_over_tls_is_gone_when_the_answer_is_there(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with slow_to_hang_up(authority, TO_ANOTHER_QUESTION) as address:
        cluster = Cluster(address, protocol="SSL", ca_file=str(authority.certificate))
        assert isinstance(await inspect_cluster(cluster, [], timeout_s=20), Outage)
        assert open_connections() == []
