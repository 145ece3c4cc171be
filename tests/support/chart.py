"""The Helm chart rendered with the values in its ci/ folder, by the real helm."""

import runpy
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.support.operations_tools import helm

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "anchormoe-agent"
VALUES = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
RELEASE, NAMESPACE = "anchormoe-agent", "plants"
OLDEST, NEWEST = "1.27", "1.37"

Manifest = dict[str, Any]


def run_helm(command: str, values: Path | str, *settings: str) -> "subprocess.CompletedProcess[str]":
    """`values` is a name of ci/ or a file; `settings` are `--set` expressions on top."""
    name = [] if command == "lint" else [RELEASE]
    file = VALUES[values] if isinstance(values, str) else values
    words = [command, *name, str(CHART), "--namespace", NAMESPACE, "--values", str(file), "--kube-version", NEWEST]
    flags = ["--strict"] if command == "lint" else []
    changes = [word for setting in settings for word in ("--set-json", setting)]
    return subprocess.run([str(helm()), *words, *flags, *changes], capture_output=True, text=True, timeout=120)


@cache
def rendered(values: str, *settings: str) -> tuple[Manifest, ...]:
    done = run_helm("template", values, *settings)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def refusal(values: str, *settings: str) -> str:
    """Why the chart does not render."""
    done = run_helm("template", values, *settings)
    assert done.returncode != 0, "the chart was rendered"
    return done.stderr


def of_kind(kind: str, values: str, *settings: str) -> list[Manifest]:
    return [each for each in rendered(values, *settings) if each["kind"] == kind]


def pods(values: str, *settings: str) -> Iterator[tuple[str, Manifest]]:
    """Name and pod of everything that runs: {metadata, spec}."""
    for each in rendered(values, *settings):
        if each["kind"] == "Pod":
            yield each["metadata"]["name"], each
        elif "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def own_pods(values: str) -> Iterator[tuple[str, Manifest]]:
    """Those that run our image for good: agent, alarms, page."""
    for name, pod in pods(values):
        if pod["spec"]["containers"][0]["name"] in ("agent", "alarms", "page"):
            yield name, pod


def plant(values: str, *settings: str) -> str | None:
    """The text that agents read."""
    found = [
        each["data"]["plant.yaml"] for each in of_kind("ConfigMap", values, *settings) if "plant.yaml" in each["data"]
    ]
    return found[0] if found else None


def build() -> dict[str, Any]:
    return runpy.run_path(str(CHART.parent / "build.py"))
