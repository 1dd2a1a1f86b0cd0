"""Flows of parts that take and give values by name, over any OpenAI-compatible server.

A part is whatever has `gives`, the name of what it gives, and methods `run` and `arun`: there is no base
class. Nobody is told what runs. Parts keep no conversation: who wants one hands in all its messages.
"""

from __future__ import annotations

from bolt_flows.flow import Agent, Condenser, Flow, Shelf, Tool
from bolt_flows.model import Call, ChatModel, Message


__all__ = ["Agent", "Call", "ChatModel", "Condenser", "Flow", "Message", "Shelf", "Tool"]
