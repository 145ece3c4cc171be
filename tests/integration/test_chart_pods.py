"""The pods of the chart outside of a container: their arguments, variables and files, asked by their own probes.

Paths of the container are moved below a temporary directory, and the port is a free one; nothing else differs.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.web.users import add_user
from tests.conftest import RedisFactory
from tests.support.chart import NAMESPACE, RELEASE, ROOT, Manifest, plant, pods
from tests.support.services.certificates import Authority
from tests.support.services.kafka import Broker
from tests.support.services.ports import free_port

TOKEN = "a-token-of-this-test"  # of a server that lives for seconds
PLACES = ("/etc/anchormoe", "/var/lib/anchormoe")
ALARMS = {
    "consoles": [{"name": "hall", "assets": ["*"]}],
    "rules": [
        {
            "name": "no-data",
            "group": "pumps",
            "technical": "no_data",
            "limit": "30s",
            "priority": "low",
            "cause": "The asset sends nothing.",
            "consequence": "Nobody watches it.",
            "action": "Check the gateway.",
            "respond_within": "30m",
        }
    ],
}


@dataclass(frozen=True)
class Pod:
    """A running container: where it answers, and what Kubernetes knows about it."""

    process: "subprocess.Popen[bytes]"
    url: str
    container: dict[str, Any]
    grace_s: int
    log: Path

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", headers=headers, verify=False, trust_env=False, timeout=10)

    def probe(self, kind: str) -> bool:
        asked = self.container[f"{kind}Probe"]["httpGet"]
        assert asked["scheme"] == "HTTPS"
        try:
            return self.get(asked["path"]).is_success
        except httpx.TransportError:
            return False

    def wait_for(self, kind: str, timeout_s: float = 240) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.probe(kind):
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.5)


def settings_for(bootstrap: str, topic: str) -> tuple[str, ...]:
    streams = ("events", "states", "dead_letters")
    sinks = [{"kind": "kafka", "topics": {name: f"{topic}-{name}" for name in streams}}]
    alarms = {**ALARMS, "topics": {name: f"{topic}-{name}" for name in ("inputs", "transitions", "alarms", "audit")}}
    wanted = {
        "kafka.bootstrap": bootstrap,
        "plant.namespace": topic.lower(),
        "plant.source.topics": [topic],
        "plant.groups[0].max_assets": 20,
        "plant.sinks": sinks,
        "plant.emission": {"policy": "all"},
        "plant.alarms": alarms,
        "alarms.enabled": True,
        "page.enabled": True,
        "http.usersKey": "users.yaml",
    }
    return tuple(f"{name}={json.dumps(value)}" for name, value in wanted.items())


class Node:
    """The directory that stands for the file system of a container."""

    def __init__(self, root: Path, redis: str) -> None:
        self._root, self._redis = root, redis
        for place in PLACES:
            (root / place[1:]).mkdir(parents=True)
        mounted = root / "etc/anchormoe"
        (mounted / "bundles").symlink_to(ROOT / "configs" / "bundles")
        (mounted / "http").mkdir()
        (mounted / "http" / "token").write_text(TOKEN)
        add_user(mounted / "http" / "users.yaml", "ada", "view")
        issued = Authority(root).issue("agent")
        (mounted / "tls").mkdir()
        (mounted / "tls" / "tls.crt").write_bytes(issued.certificate.read_bytes())
        (mounted / "tls" / "tls.key").write_bytes(issued.key.read_bytes())

    def inside(self, text: str) -> str:
        for place in PLACES:
            text = text.replace(place, f"{self._root}{place}")
        return text

    def variables(self, container: dict[str, Any]) -> dict[str, str]:
        """As Kubernetes would fill them in."""
        known = {"ANCHORMOE_REDIS_URL": self._redis, "OMP_NUM_THREADS": "1"}
        known["ANCHORMOE_KAFKA_INSTANCE_ID"] = f"{RELEASE}-0"
        literal = {each["name"]: self.inside(each["value"]) for each in container["env"] if "value" in each}
        return literal | {each["name"]: known[each["name"]] for each in container["env"] if "valueFrom" in each}

    @contextmanager
    def run(self, pod: Manifest, text: str) -> Iterator[Pod]:
        [container] = pod["spec"]["containers"]
        port, own = free_port(), container["ports"][0]["containerPort"]
        (self._root / "etc/anchormoe/plant.yaml").write_text(self.inside(text).replace(f"port: {own}", f"port: {port}"))
        words = [self.inside(word).replace(str(own), str(port)) for word in container["args"]]
        variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **self.variables(container)}
        log = self._root / "log.txt"
        with log.open("wb") as out:
            process = subprocess.Popen([sys.executable, "-m", "agent", *words], env=variables, stdout=out, stderr=out)
        grace_s = pod["spec"]["terminationGracePeriodSeconds"]
        try:
            yield Pod(process, f"https://127.0.0.1:{port}", container, grace_s, log)
        finally:
            process.kill()
            process.wait(10)


@pytest.mark.slow
@pytest.mark.parametrize("component", ["agent", "alarms", "page"])
def test_a_pod_starts_answers_its_probes_and_stops_in_time(
    component: str, kafka: Broker, redis_factory: RedisFactory, topic_name: str, tmp_path: Path
) -> None:
    for name in (topic_name, f"{topic_name}-events"):
        kafka.create_topic(name, 1)
    settings = settings_for(kafka.bootstrap, topic_name)
    wanted = RELEASE if component == "agent" else f"{RELEASE}-{component}"
    found = dict(pods("minimal", *settings))
    node = Node(tmp_path, redis_factory("redis").url)
    with node.run(found[wanted], plant("minimal", *settings) or "") as pod:
        for kind in ("startup", "liveness", "readiness"):
            pod.wait_for(kind)
        service = f"{wanted}.{NAMESPACE}.svc"
        assert pod.get("/", Host="evil.example").status_code == 421
        if component != "page":
            assert pod.get("/metrics", Host=service).status_code in (401, 403)
            told = pod.get("/metrics", Host=service, Authorization=f"Bearer {TOKEN}")
            assert told.status_code == 200
            assert "anchormoe_" in told.text
        pod.process.send_signal(signal.SIGTERM)
        assert pod.process.wait(pod.grace_s) == 0, pod.log.read_text()[-3000:]
