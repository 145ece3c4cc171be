"""Draws the dashboards of deploy/grafana from a real Prometheus that has scraped real agents and an alarm worker.

    python -m tests.bench.dashboard_pictures --minutes 6

Starts a broker, Redis, a simulated plant, an agent, later a second one, an alarm worker and Prometheus; then asks
Prometheus what Grafana would ask it, panel by panel.
It is not Grafana that draws, so colours and widgets are not the same.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import httpx
import matplotlib as mpl
import yaml
from matplotlib.dates import DateFormatter
from matplotlib.ticker import EngFormatter

from tests.support.dashboards import load
from tests.support.operations_tools import prometheus
from tests.support.services.kafka import KafkaBroker
from tests.support.services.ports import free_port
from tests.support.services.redis import RedisOptions, RedisServer

mpl.use("agg")
import matplotlib.pyplot as plt  # after the choice of the backend

ROOT = Path(__file__).parents[2]
SCRAPE_S, STEP_S, RATE = 2, 4, "30s"
CELL_W, CELL_H = 0.62, 0.36
COLOURS = {"green": "#4a8f4a", "yellow": "#c9a400", "orange": "#d9822b", "red": "#c23030"}
MOST_SERIES = 8


def plant(port: int, alarm_port: int, receiver: str) -> dict[str, Any]:
    """Pumps, gearboxes and patients with the rules of configs/alarms.yaml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose-plant.yaml").read_text())
    alarms = yaml.safe_load((ROOT / "configs" / "alarms.yaml").read_text())["alarms"]
    for group in found["groups"]:
        group["model"]["bundle"] = str(ROOT / "configs" / "bundles" / Path(group["model"]["bundle"]).name)
    found["alarms"] = {**alarms, "http": {"port": alarm_port}, "webhooks": [{"name": "pager", "url": receiver}]}
    return {**found, "http": {"port": port}, "emission": {"policy": "all"}, "sinks": found["sinks"][:1]}


@contextmanager
def program(*arguments: str, directory: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / "log.txt").open("ab") as out:
        process = subprocess.Popen(arguments, cwd=directory, env={**os.environ, **environ}, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


class _Accepting(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def receiver() -> Iterator[str]:
    """Takes every alarm."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Accepting) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Scene:
    """Everything that is scraped, in one temporary directory."""

    def __init__(self, directory: Path, closing: ExitStack) -> None:
        self._directory, self._closing = directory, closing
        self._ports = [free_port() for _ in range(4)]
        self._kafka, self._redis = KafkaBroker(quick_start=False), RedisServer("redis", RedisOptions())
        for server in (self._kafka, self._redis):
            server.start()
            closing.callback(server.close)
        for topic in ("sensors", "events", "states"):
            self._kafka.create_topic(topic, 4)
        self._kafka.create_topic("dead-letters", 1)
        self._receiver = closing.enter_context(receiver())
        self.prometheus_url = f"http://127.0.0.1:{self._ports[3]}"

    def start(self, name: str, at: int, *command: str) -> None:
        own = self._directory / name
        own.mkdir()
        (own / "plant.yaml").write_text(yaml.safe_dump(plant(self._ports[at], self._ports[2], self._receiver)))
        environ = {"ANCHORMOE_KAFKA_BOOTSTRAP": self._kafka.bootstrap, "ANCHORMOE_REDIS_URL": self._redis.url}
        environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        words = (sys.executable, "-m", "agent", *command, "--config", "plant.yaml")
        self._closing.enter_context(program(*words, directory=own, environ=environ))

    def scrape(self) -> None:
        own = self._directory / "prometheus"
        own.mkdir()
        jobs = {"anchormoe-agent": self._ports[:2], "anchormoe-alarms": self._ports[2:3]}
        scrapes = [
            {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
            for name, ports in jobs.items()
        ]
        settings = {"global": {"scrape_interval": f"{SCRAPE_S}s"}, "scrape_configs": scrapes}
        (own / "prometheus.yml").write_text(yaml.safe_dump(settings))
        listen = f"--web.listen-address=127.0.0.1:{self._ports[3]}"
        words = (str(prometheus()), "--config.file=prometheus.yml", "--storage.tsdb.path=data", listen)
        self._closing.enter_context(program(*words, directory=own, environ={}))


def series(url: str, expression: str, begin_s: float, end_s: float) -> list[dict[str, Any]]:
    """What Grafana would get for the whole picture. Raises what Prometheus complains about."""
    for variable, value in (("$__rate_interval", RATE), ("$job", ".+"), ("$instance", ".+")):
        expression = expression.replace(variable, value)
    asked = {"query": expression, "start": f"{begin_s:.0f}", "end": f"{end_s:.0f}", "step": str(STEP_S)}
    answer = httpx.get(f"{url}/api/v1/query_range", params=asked, timeout=60, trust_env=False)
    answer.raise_for_status()
    found: list[dict[str, Any]] = answer.json()["data"]["result"]
    return found


def legend(form: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form).strip()


Curve = tuple[str, list[datetime], list[float]]


def curves(panel: dict[str, Any], url: str, begin_s: float, end_s: float) -> list[Curve]:
    return [
        (
            legend(target["legendFormat"], one["metric"]),
            [datetime.fromtimestamp(at, UTC) for at, _ in one["values"]],
            [float(value) for _, value in one["values"]],
        )
        for target in panel["targets"]
        for one in series(url, target["expr"], begin_s, end_s)
    ]


def draw(axes: Any, panel: dict[str, Any], found: list[Curve]) -> None:
    axes.set_title(panel["title"], fontsize=8, loc="left", fontweight="bold")
    axes.tick_params(labelsize=6)
    if not found:
        axes.text(0.5, 0.5, "none", ha="center", va="center", fontsize=8, color="#777777", transform=axes.transAxes)
        axes.set_xticks([])
        axes.set_yticks([])
        return
    ways = {"stat": _stat, "table": _stat, "state-timeline": _states, "heatmap": _heat}
    stacked = "stacking" in panel["fieldConfig"]["defaults"]["custom"]
    ways.get(panel["type"], _stack if stacked else _lines)(axes, panel, found)


def _stat(axes: Any, panel: dict[str, Any], found: list[Curve]) -> None:
    axes.axis("off")
    shown = sorted(found, key=lambda curve: -curve[2][-1])[:MOST_SERIES]
    text = "\n".join(f"{name}: {values[-1]:.4g}" for name, _, values in shown)
    axes.text(0.02, 0.85, text, fontsize=7, va="top", transform=axes.transAxes)


def _states(axes: Any, panel: dict[str, Any], found: list[Curve]) -> None:
    for at, (_, times, values) in enumerate(found):
        colours = [COLOURS["red"] if value else "#d8d8d8" for value in values]
        axes.scatter(times, [at] * len(times), c=colours, s=9, marker="s", linewidths=0)
    axes.set_yticks(range(len(found)), [name for name, _, _ in found])
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))


def _aligned(found: list[Curve]) -> tuple[list[datetime], dict[str, list[float]]]:
    """All curves over all times; 0 where one is not."""
    times = sorted({at for _, own, _ in found for at in own})
    known = {name: dict(zip(own, values, strict=True)) for name, own, values in found}
    return times, {name: [points.get(at, 0.0) for at in times] for name, points in known.items()}


def _stack(axes: Any, panel: dict[str, Any], found: list[Curve]) -> None:
    times, curves = _aligned(found)
    axes.stackplot(
        times, list(curves.values()), labels=list(curves), alpha=0.8, colors=mpl.colormaps["tab20"](range(20))
    )
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.legend(fontsize=4.5, loc="upper left", ncols=2, framealpha=0.6)


def _heat(axes: Any, panel: dict[str, Any], found: list[Curve]) -> None:
    """Prometheus' buckets are cumulative; a cell is one bucket alone."""
    times, curves = _aligned(sorted(found, key=lambda curve: float(curve[0])))
    rows = list(curves.values())
    alone = [
        [max(high - low, 0) for high, low in zip(row, below, strict=True)]
        for row, below in zip(rows[1:], rows, strict=False)
    ]
    axes.pcolormesh(times, range(len(rows)), [rows[0], *alone], cmap="Blues", shading="nearest")
    axes.set_yticks(range(len(rows)), [f"≤ {name}" for name in curves])
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))


def _lines(axes: Any, panel: dict[str, Any], found: list[Curve]) -> None:
    shown = sorted(found, key=lambda curve: -max(curve[2]))
    for name, times, values in shown:
        axes.plot(times, values, linewidth=1, label=name)
    highest = max(max(values) for _, _, values in found)
    for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]:
        if step["value"] <= max(2 * highest, 1):
            axes.axhline(step["value"], color=COLOURS[step["color"]], linewidth=0.8, linestyle="--")
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.set_ylabel({"none": "", "percentunit": "share", "cps": "1/s"}.get(_unit(panel), _unit(panel)), fontsize=6)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    names = axes.get_legend_handles_labels()
    axes.legend(names[0][:MOST_SERIES], names[1][:MOST_SERIES], fontsize=5, loc="upper left", framealpha=0.6)
    axes.yaxis.set_major_formatter(EngFormatter())


def _unit(panel: dict[str, Any]) -> str:
    return str(panel["fieldConfig"]["defaults"]["unit"])


def picture(name: str, url: str, begin_s: float, end_s: float, out: Path) -> dict[str, int]:
    """Draws a dashboard; how many series each panel had."""
    panels = load(name)["panels"]
    height = max(each["gridPos"]["y"] + each["gridPos"]["h"] for each in panels)
    figure = plt.figure(figsize=(24 * CELL_W, height * CELL_H), dpi=100)
    counts = {}
    for panel in panels:
        place = panel["gridPos"]
        bottom = 1 - (place["y"] + place["h"]) / height
        if panel["type"] == "row":
            figure.text(0.01, bottom, panel["title"], fontsize=10, fontweight="bold", color="#444444")
            continue
        left, margin = place["x"] / 24 + 0.035, 1.6 / height
        if panel["type"] == "state-timeline":
            left += 0.09
        width = place["w"] / 24 - (left - place["x"] / 24) - 0.012
        axes = figure.add_axes((left, bottom + margin, width, place["h"] / height - 1.9 * margin))
        found = curves(panel, url, begin_s, end_s)
        counts[panel["title"]] = len(found)
        draw(axes, panel, found)
    figure.savefig(out)
    plt.close(figure)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    given = parser.parse_args()
    with TemporaryDirectory() as directory, ExitStack() as closing:
        scene = Scene(Path(directory), closing)
        scene.scrape()
        scene.start("agent-1", 0, "run")
        scene.start("alarms", 2, "alarms")
        scene.start("simulator", 1, "simulate", "stream", "--to", "kafka", "--rate", "1", "--assets", "6")
        time.sleep(30)  # models are loaded
        begin_s = time.time()
        time.sleep(given.minutes * 30)
        scene.start("agent-2", 1, "run")
        time.sleep(given.minutes * 30)
        for name in ("agent", "alarms"):
            counts = picture(name, scene.prometheus_url, begin_s, time.time(), given.out / f"dashboard-{name}.png")
            print(json.dumps(counts, indent=1))


if __name__ == "__main__":
    main()
