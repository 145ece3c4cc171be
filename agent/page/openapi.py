"""The OpenAPI document of the page's API, made from the models. Pure."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from agent.contracts.json_schema import definitions
from agent.page import api

VERSION = "1.0.0"
"""Of the API, not of the package."""
_TIMES = (("from", "integer"), ("to", "integer"))


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: what it answers, its body and its query parameters with their types; a name with `!` is required."""

    method: str
    path: str
    answer: type[BaseModel] | None
    text: str
    query: tuple[tuple[str, str], ...] = ()
    body: type[BaseModel] | None = None
    status: int = 200


OPERATIONS = (
    Operation("get", "/api/session", api.Session, "Who asks. Answers without a session, too."),
    Operation("post", "/session", api.Session, "Log in.", body=api.Login),
    Operation("delete", "/session", api.Session, "Log out."),
    Operation("get", "/api/fleet", api.Fleet, "All assets."),
    Operation(
        "get",
        "/api/stream",
        None,
        "Server-sent events: d Delta, e list of EventHead, s Samples, a alarms changed, o list of AuditRecord, "
        "h Heartbeat, reset, bye.",
        (("after", "integer"), ("asset", "string")),
    ),
    Operation("get", "/api/asset", api.AssetDetail, "An asset now, with its samples.", (("id!", "string"),)),
    Operation(
        "get",
        "/api/timeline",
        api.Timeline,
        "States of an asset over time.",
        (("asset!", "string"), *_TIMES, ("px", "integer")),
    ),
    Operation(
        "get",
        "/api/events",
        api.Events,
        "The history, newest first.",
        (("asset", "string"), ("type", "string"), ("before", "string"), *_TIMES, ("limit", "integer")),
    ),
    Operation("get", "/api/event", api.EventDetail, "An event as published, and its sum.", (("id!", "string"),)),
    Operation("get", "/api/rebuild", api.Rebuilt, "Judges the window of an event again.", (("id!", "string"),)),
    Operation(
        "get", "/api/period", api.Period, "What was odd in a period.", (("from!", "integer"), ("to!", "integer"))
    ),
    Operation("get", "/api/trend", api.Trend, "Changes per minute, and what was an hour ago."),
    Operation("get", "/api/alarms", api.Alarms, "Present alarms and outcomes of commands."),
    Operation("post", "/api/alarms/{verb}", api.Accepted, "Send a command.", body=api.Command, status=202),
    Operation("get", "/api/health", api.Health, "How the work goes."),
    Operation("get", "/api/letters", api.Letters, "The latest dead letters.", (("reason", "string"),)),
)
_STREAMED = (api.Delta, api.Heartbeat, api.Samples)


def openapi_document() -> dict[str, Any]:
    models = [one for operation in OPERATIONS for one in (operation.answer, operation.body) if one is not None]
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "anchormoe-agent page",
            "version": VERSION,
            "description": "What the operator page asks for. Decision support only: not a medical device, not a "
            "primary alarm. Ignore fields you do not know.",
        },
        "security": [{"token": []}, {"session": []}, {}],
        "paths": paths,
        "components": {
            "schemas": definitions(dict.fromkeys([*models, *_STREAMED, api.Error]), "#/components/schemas/{model}"),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "anchormoe-PORT",
                    "description": "PORT is that on which the server listens; with HTTPS the name begins with __Host-.",
                },
            },
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    content = (
        {"text/event-stream": {"schema": {"type": "string"}}}
        if operation.answer is None
        else {"application/json": {"schema": _ref(operation.answer)}}
    )
    error = {"description": "What is wrong.", "content": {"application/json": {"schema": _ref(api.Error)}}}
    parameters = [_query(name, kind) for name, kind in operation.query]
    if "{verb}" in operation.path:
        parameters.append({"name": "verb", "in": "path", "required": True, "schema": {"type": "string"}})
    if operation.method != "get":
        own = {"type": "string", "const": "1"}
        parameters.append({"name": "X-Anchormoe", "in": "header", "required": True, "schema": own})
    described: dict[str, Any] = {
        "summary": operation.text,
        "parameters": parameters,
        "responses": {str(operation.status): {"description": operation.text, "content": content}, "default": error},
    }
    if operation.body is not None:
        schema = {"application/json": {"schema": _ref(operation.body)}}
        described["requestBody"] = {"required": True, "content": schema}
    return described


def _query(name: str, kind: str) -> dict[str, Any]:
    return {"name": name.rstrip("!"), "in": "query", "required": name.endswith("!"), "schema": {"type": kind}}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}
