"""Fixtures every test may use: real services, started at first use and stopped with the test process."""

import logging
import os
import signal
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog

from tests.support.services.kafka import ExistingBroker, KafkaBroker
from tests.support.services.kafka_cluster import KafkaCluster
from tests.support.services.processes import keep_logs
from tests.support.services.redis import ExistingRedis, RedisOptions, RedisServer
from tests.support.services.redis_binaries import FLAVOURS
from tests.support.services.redis_cluster import RedisCluster
from tests.support.services.redis_sentinel import RedisSentinel
from tests.support.services.requirements import ServiceUnavailable

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and every process under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Some virtual machines advertise AMX and trap it: bfloat16 products then end the process with an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

TESTS = Path(__file__).parent
TIMEOUTS_S = {"unit": 240, "browser": 240, "architecture": 240, "property": 360, "integration": 360, "fault": 600}
"""Seconds that one test of a kind may take on a busy machine. A `slow` one gets four times as long."""

KafkaFactory = Callable[..., KafkaBroker]
RedisFactory = Callable[..., RedisServer]
KafkaClusterFactory = Callable[..., KafkaCluster]
RedisClusterFactory = Callable[..., RedisCluster]
RedisSentinelFactory = Callable[..., RedisSentinel]
Started = TypeVar(
    "Started", KafkaBroker, ExistingBroker, RedisServer, ExistingRedis, KafkaCluster, RedisCluster, RedisSentinel
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every test the time-out of its kind; a test may still set its own."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            kind = item.path.relative_to(TESTS).parts[0]
            patience = 4 if item.get_closest_marker("slow") else 1
            item.add_marker(pytest.mark.timeout(TIMEOUTS_S[kind] * patience))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> KafkaBroker | ExistingBroker:
    """One broker for all tests of this process; use `topic_name` so that they do not meet."""
    address = os.environ.get("ANCHORMOE_TEST_KAFKA")
    with _required():
        if address:
            return _started(ExistingBroker(address), request)
        return _started(KafkaBroker(quick_start=False), request)


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> KafkaFactory:
    """Starts brokers that belong to one test, which may kill them; arguments are those of KafkaBroker."""
    _refuse_existing("ANCHORMOE_TEST_KAFKA")

    def start(**options: Any) -> KafkaBroker:
        with _required():
            return _started(KafkaBroker(**options), request)

    return start


@pytest.fixture(scope="session", params=FLAVOURS)
def redis_server(request: pytest.FixtureRequest) -> RedisServer | ExistingRedis:
    """One server per flavour for all tests of this process; use `key_prefix` so that they do not meet."""
    address = os.environ.get(f"ANCHORMOE_TEST_{request.param.upper()}")
    with _required():
        return _started(ExistingRedis(address), request) if address else _started(RedisServer(request.param), request)


@pytest.fixture
def redis_factory(request: pytest.FixtureRequest) -> RedisFactory:
    """Starts servers that belong to one test, which may kill them: `redis_factory("valkey", persistent=True)`."""

    def start(flavour: str = "redis", **options: Any) -> RedisServer:
        _refuse_existing(f"ANCHORMOE_TEST_{flavour.upper()}")
        with _required():
            return _started(RedisServer(flavour, RedisOptions(**options)), request)

    return start


@pytest.fixture(scope="session")
def _one_kafka_cluster(request: pytest.FixtureRequest) -> KafkaCluster:
    _refuse_existing("ANCHORMOE_TEST_KAFKA")
    with _required():
        return _started(KafkaCluster(), request)


@pytest.fixture
def kafka_cluster(_one_kafka_cluster: KafkaCluster) -> KafkaCluster:
    """One cluster of three nodes for all tests of this process, whole again before each; use `topic_name`.

    A test may stop, kill and pause its nodes.
    """
    with _required():
        _one_kafka_cluster.restore()
    return _one_kafka_cluster


@pytest.fixture
def kafka_cluster_factory(request: pytest.FixtureRequest) -> KafkaClusterFactory:
    """Starts clusters that belong to one test; arguments are those of KafkaCluster."""
    _refuse_existing("ANCHORMOE_TEST_KAFKA")

    def start(**options: Any) -> KafkaCluster:
        with _required():
            return _started(KafkaCluster(**options), request)

    return start


@pytest.fixture(scope="session", params=FLAVOURS)
def _one_redis_cluster(request: pytest.FixtureRequest) -> RedisCluster:
    _refuse_existing(f"ANCHORMOE_TEST_{request.param.upper()}")
    with _required():
        return _started(RedisCluster(request.param), request)


@pytest.fixture
def redis_cluster(_one_redis_cluster: RedisCluster) -> RedisCluster:
    """One cluster per flavour for all tests of this process, whole again before each; use `key_prefix`.

    A test may kill its nodes and move its slots, which then stay where they are.
    """
    with _required():
        _one_redis_cluster.restore()
    return _one_redis_cluster


@pytest.fixture
def redis_cluster_factory(request: pytest.FixtureRequest) -> RedisClusterFactory:
    """Starts clusters that belong to one test: `redis_cluster_factory("valkey", persistent=True)`."""

    def start(flavour: str = "redis", **options: Any) -> RedisCluster:
        _refuse_existing(f"ANCHORMOE_TEST_{flavour.upper()}")
        with _required():
            return _started(RedisCluster(flavour, **options), request)

    return start


@pytest.fixture(scope="session", params=FLAVOURS)
def _one_redis_sentinel(request: pytest.FixtureRequest) -> RedisSentinel:
    _refuse_existing(f"ANCHORMOE_TEST_{request.param.upper()}")
    with _required():
        return _started(RedisSentinel(request.param), request)


@pytest.fixture
def redis_sentinel(_one_redis_sentinel: RedisSentinel) -> RedisSentinel:
    """A master, a replica and three sentinels per flavour for all tests of this process; use `key_prefix`.

    A test may fail over and kill servers. Before each test all of them run and hold the same data.
    """
    with _required():
        _one_redis_sentinel.restore()
    return _one_redis_sentinel


@pytest.fixture
def redis_sentinel_factory(request: pytest.FixtureRequest) -> RedisSentinelFactory:
    """Starts servers and sentinels that belong to one test: `redis_sentinel_factory("valkey", replicas=2)`."""

    def start(flavour: str = "redis", **options: Any) -> RedisSentinel:
        _refuse_existing(f"ANCHORMOE_TEST_{flavour.upper()}")
        with _required():
            return _started(RedisSentinel(flavour, **options), request)

    return start


@pytest.fixture
def topic_name() -> str:
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def key_prefix() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report names the copies of the logs of the services that lived at that moment."""
    report = yield
    if report.failed and (kept := keep_logs(f"{report.nodeid}-{report.when}")):
        report.sections.append(("service logs", "\n".join(kept)))
    return report


def _started(service: Started, request: pytest.FixtureRequest) -> Started:
    request.addfinalizer(service.close)  # before the start, so that a failed start can still leave its log
    service.start()
    return service


@contextmanager
def _required() -> Iterator[None]:
    try:
        yield
    except ServiceUnavailable as error:
        pytest.fail(str(error), pytrace=False)


def _refuse_existing(variable: str) -> None:
    if variable in os.environ:
        reason = f"this test kills, restarts or secures its server; unset {variable} to let it start its own"
        pytest.fail(reason, pytrace=False)


@pytest.fixture(autouse=True)
def _logs_of_one_test() -> Iterator[None]:
    """A test that sets up logs hands its captured stream to later ones, where it is closed."""
    yield
    structlog.reset_defaults()
    root = logging.getLogger()
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:  # pytest's are subclasses
        root.removeHandler(handler)
