"""Context windows of well-known hosted models, in tokens."""

from __future__ import annotations


MODEL_WINDOWS: dict[str, int] = {
    "chatgpt-4o": 128_000,
    "claude-": 200_000,
    "command-r": 128_000,
    "deepseek-chat": 64_000,
    "deepseek-reasoner": 64_000,
    "gemini-1.5": 1_000_000,
    "gemini-2": 1_000_000,
    "gemini-3": 1_000_000,
    "glm-4": 128_000,
    "gpt-3.5-turbo": 16_385,
    "gpt-4": 8_192,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4.1": 1_000_000,
    "gpt-4o": 128_000,
    "gpt-5": 272_000,
    "gpt-oss": 128_000,
    "kimi-k2": 128_000,
    "llama-3.1": 128_000,
    "llama-3.2": 128_000,
    "llama-3.3": 128_000,
    "mistral-large": 128_000,
    "mistral-small": 32_000,
    "moonshot-v1-128k": 128_000,
    "moonshot-v1-32k": 32_000,
    "moonshot-v1-8k": 8_000,
    "o1": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "qwen-long": 1_000_000,
    "qwen-max": 32_000,
    "qwen-plus": 128_000,
    "qwen-turbo": 128_000,
}
"""Prefix of a model's name -> its window; where releases differ, the smaller one."""


def bare_name(model: str) -> str:
    """A model's name in lower case without the provider in front (`openai/gpt-4o`, `openai:gpt-4o`)."""
    return model.lower().rpartition("/")[2].rpartition(":")[2] if ":ft" not in model else model


def context_window(model: str) -> int | None:
    """The window of a model by the longest prefix that fits; `None` for a model that is not known."""
    name = bare_name(model)
    fitting = [prefix for prefix in MODEL_WINDOWS if name.startswith(prefix)]
    return MODEL_WINDOWS[max(fitting, key=len)] if fitting else None
