"""Agents with tools and colleagues, over any OpenAI-compatible server.

An `Agent` is one conversation. It has no id, and neither have its messages: who wants to keep them
apart keeps the objects apart.
"""

from __future__ import annotations

from acme_agents.agent import Agent, Listener
from acme_agents.messages import Message, Piece, ToolCall, join
from acme_agents.model import Model
from acme_agents.transport import ModelError


__all__ = ["Agent", "Listener", "Message", "Model", "ModelError", "Piece", "ToolCall", "join"]
