"""What a component of Haystack is, told by its sockets, and the mark of what an installation governs."""

from __future__ import annotations

import inspect
from collections.abc import Container
from typing import Any, Literal

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import FallbackChatGenerator
from haystack.core.component import component
from haystack.core.pipeline.base import PipelineBase
from haystack.core.super_component.super_component import _SuperComponent

from ce_integrations.install.marks import Governor
from ce_integrations.wrapping.walk import walk


Kind = Literal["generator", "retriever", "helper", "runner", ""]

PACKAGES = ("haystack", "haystack_integrations", "haystack_experimental")
owner_of = Governor("haystack")
RUNNERS = (PipelineBase, Agent, _SuperComponent, FallbackChatGenerator)
"""What runs others, which ask: the last one hands what it is asked to one model after the other."""

_QUERIES = frozenset({"query", "queries", "query_embedding", "query_embeddings", "filters"})


def kind_of(subject: object) -> Kind:
    """What a component or a pipeline does."""
    if isinstance(subject, RUNNERS):
        return "runner"
    sockets = (_sockets(subject, f"__haystack_{side}__") for side in ("input", "output"))
    return _kind(*sockets) or kind_of_class(type(subject))


def _sockets(subject: object, name: str) -> Any:
    """Sockets of a component; a tool may name anything, and `flask.request` raises for each attribute outside a request."""
    try:
        return getattr(subject, name, ())
    except Exception:  # noqa: BLE001 - somebody else's object may raise anything
        return ()


def kind_of_class(cls: type) -> Kind:
    """The same of a class, as far as its methods tell: sockets may be set when an object is made."""
    if issubclass(cls, RUNNERS):
        return "runner"
    run = getattr(cls, "run", None)
    if not callable(run):
        return ""
    kind = _kind(_parameters(run), getattr(run, "_output_types_cache", ()))
    if not kind and cls.__module__.partition(".")[0] in PACKAGES:
        # A component of the framework's own asks for itself; an app's own one is the app.
        return "helper" if "chat_generator" in _parameters(cls.__init__) else ""
    return kind


def _kind(inputs: Container[str], outputs: Container[str]) -> Kind:
    if "messages" in inputs and "replies" in outputs:
        return "generator"
    finds = "documents" in outputs and "documents" not in inputs
    return "retriever" if finds and any(name in inputs for name in _QUERIES) else ""


def _parameters(function: Any) -> Container[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # it is none of Python's
        return ()


def classes() -> list[type]:
    """Those of all components that are defined by now."""
    return [*component.registry.values(), Pipeline]


def find_parts(target: object) -> list[Any]:
    """What is marked of a target: models, and what runs them."""
    parts = walk(target, PACKAGES, components)
    return [part for part in parts if kind_of(part) in ("generator", "runner")]


def components(subject: object) -> list[object]:
    """A pipeline's components stand in a graph of another library's."""
    if not isinstance(subject, PipelineBase):
        return []
    return [node["instance"] for node in subject.graph.nodes.values()]
