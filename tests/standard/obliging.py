"""A model that does what it is asked: calls a tool, fills a schema, or says something."""

from __future__ import annotations

import json
import re
from typing import Any

from ce_integrations.testing.answers import Answer, JsonObject, default_text, text, tool_calls


NUMBER = re.compile(r"-?\d+")
QUOTED = re.compile(r"'([^']+)'")


def oblige(body: JsonObject) -> Answer:
    """Answer a chat request; the same request always gets the same answer."""
    last = body["messages"][-1]
    said = words(last["content"])
    tools = [tool["function"] for tool in body.get("tools") or ()]
    if tools and last["role"] == "user":
        wanted = (body.get("tool_choice") or {}) if body.get("tool_choice") != "required" else {}
        name = wanted.get("function", {}).get("name", tools[0]["name"])
        function = next(tool for tool in tools if tool["name"] == name)
        return tool_calls([(name, example(function.get("parameters") or {}, said))])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        return text(json.dumps(example(form["json_schema"]["schema"], said), ensure_ascii=False))
    if form.get("type") == "json_object":
        return text(json.dumps(dict.fromkeys(QUOTED.findall(said), said)))
    return text(default_text(body))


def words(content: str | list[JsonObject]) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content)


def example(schema: JsonObject, said: str) -> Any:
    """Make a value that fits a JSON schema, out of what the user said."""
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {key: example(each, said) for key, each in schema.get("properties", {}).items()}
    if kind in {"integer", "number"}:
        found = NUMBER.search(said)
        return int(found.group()) if found else 0
    quoted = QUOTED.search(said)
    return quoted.group(1) if quoted else said
