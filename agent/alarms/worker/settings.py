"""Settings of the worker and the Faust app made of them."""

import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faust

from agent.alarms.worker.tables import RowTable, SeekFirstTables
from agent.contracts.alarms import ALARMS, AUDIT, INPUTS, TRANSITIONS
from connectors.kafka import tolerant_fetcher
from connectors.kafka.cluster import Cluster

_LINGER_S = 0.005
"""Rows of many inputs travel in one request: a request of its own for each was a third of a worker's processor time."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`topics` maps our stream names to topics of the cluster. `directory`: where Faust may put files."""

    app_id: str
    cluster: Cluster
    events_topic: str
    topics: dict[str, str] = field(
        default_factory=lambda: {name: name for name in (INPUTS, TRANSITIONS, ALARMS, AUDIT)}
    )
    partitions: int = 4
    replication: int = 1
    tick_s: float = 1.0
    session_s: float = 15.0
    no_progress_s: float = 60.0
    directory: Path | None = None
    namespace: str = "default"


def faust_app(settings: WorkerSettings) -> Any:
    tolerant_fetcher.install()  # or one record with a damaged header would end every worker that reads it
    cluster = settings.cluster
    return faust.App(
        settings.app_id,
        broker=[f"kafka://{address}" for address in cluster.bootstrap.split(",")],
        broker_credentials=_credentials(cluster),
        broker_session_timeout=settings.session_s,
        broker_heartbeat_interval=settings.session_s / 5,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        producer_linger=_LINGER_S,
        store="memory://",
        datadir=settings.directory or _scratch_directory(settings.app_id),
        Table=RowTable,
        TableManager=SeekFirstTables,
        topic_partitions=settings.partitions,
        topic_replication_factor=settings.replication,
        topic_disable_leader=True,
        table_standby_replicas=0,
        stream_wait_empty=True,
        web_enabled=False,
        processing_guarantee="at_least_once",
    )


def _scratch_directory(app_id: str) -> Path:
    """The same at every start, so that killed workers do not leave directories behind. Nothing in it is read.

    The name can be guessed, so that another user may have made it: then it is another one.
    """
    path = Path(tempfile.gettempdir()) / f"{app_id}-{os.getuid()}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        path.chmod(0o700)
        return path
    return Path(tempfile.mkdtemp(prefix=f"{app_id}-"))


def _credentials(cluster: Cluster) -> Any:
    given = cluster.arguments()
    if cluster.protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=cluster.username,
            password=cluster.password,
            mechanism=cluster.mechanism or "PLAIN",
            ssl_context=given.get("ssl_context"),
        )
    return faust.SSLCredentials(given["ssl_context"]) if cluster.protocol == "SSL" else None
