"""Schemas that other projects publish: custom resources (KEDA, Prometheus' operator, Gateway API), Compose.

The files beside this one are made from those in the projects' own Go modules (all Apache-2.0), without descriptions,
so that the tests need neither Go nor the network:

    python -m tests.support.published_schemas
"""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml

HERE = Path(__file__).parent
SOURCES: Final = {
    "ScaledObject": ("github.com/kedacore/keda/v2@v2.21.0", "config/crd/bases/keda.sh_scaledobjects.yaml"),
    "ServiceMonitor": (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
    ),
    "PrometheusRule": (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
    "HTTPRoute": (
        "sigs.k8s.io/gateway-api@v1.3.0",
        "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",
    ),
}
"""By kind: the Go module with its version, and the definition's path in it."""


COMPOSE: Final = ("github.com/compose-spec/compose-go/v2@v2.16.2", "schema/compose-spec.json")


def compose_problems(stack: dict[str, Any]) -> list[str]:
    """By path."""
    errors = jsonschema.Draft202012Validator(schema("Compose")["schema"]).iter_errors(stack)
    return [f"{error.json_path}: {error.message}" for error in errors]


def problems(thing: dict[str, Any]) -> list[str]:
    """What a cluster with `--validate=strict` would refuse, by path."""
    found = schema(thing["kind"])
    if thing["apiVersion"] != found["apiVersion"]:
        return [f"apiVersion: {thing['apiVersion']} instead of {found['apiVersion']}"]
    errors = jsonschema.Draft202012Validator(found["schema"]).iter_errors(thing)
    return [f"{error.json_path}: {error.message}" for error in errors]


@cache
def schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{kind}.json").read_text())
    return found


def from_definition(definition: dict[str, Any], module: str) -> dict[str, Any]:
    """The schema of the stored version, closed: a cluster drops what a definition does not name."""
    spec = definition["spec"]
    [version] = [each for each in spec["versions"] if each["storage"]]
    opened = version["schema"]["openAPIV3Schema"]
    opened["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "module": module,
        "apiVersion": f"{spec['group']}/{version['name']}",
        "schema": _closed(opened),
    }


def _closed(node: Any) -> Any:
    """Without descriptions; `int-or-string` and `preserve-unknown-fields` in the words of JSON Schema."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if not key.startswith("x-") and key not in _OMITTED}
    closed = {key: _named(value) if key == "properties" else _closed(value) for key, value in kept.items()}
    if node.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


_OMITTED = {"description", "default", "nullable", "format"}


def _named(properties: dict[str, Any]) -> dict[str, Any]:
    return {name: _closed(each) for name, each in properties.items()}


def refresh() -> None:
    made = {kind: from_definition(yaml.safe_load(_read(*source)), source[0]) for kind, source in SOURCES.items()}
    made["Compose"] = {"module": COMPOSE[0], "schema": _without_descriptions(json.loads(_read(*COMPOSE)))}
    for kind, found in made.items():
        (HERE / f"{kind}.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(kind, found["module"])


def _read(module: str, path: str) -> str:
    told = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, check=True)
    return (Path(json.loads(told.stdout)["Dir"]) / path).read_text()


def _without_descriptions(node: Any) -> Any:
    """A description is a text; a property of that name is an object."""
    if isinstance(node, list):
        return [_without_descriptions(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "description" or not isinstance(value, str)}
    return {key: _without_descriptions(value) for key, value in kept.items()}
