"""Names and context windows of well-known hosted models."""

from __future__ import annotations

import re
from functools import lru_cache


MODEL_WINDOWS: dict[str, int] = {
    "chatgpt-4o": 128_000,
    "claude": 200_000,
    "claude-2.0": 100_000,
    "claude-instant": 100_000,
    "claude-v1": 100_000,
    "claude-v2": 100_000,
    "codestral": 32_000,
    "command-a": 128_000,
    "command-r": 128_000,
    "deepseek-chat": 64_000,
    "deepseek-r1": 64_000,
    "deepseek-reasoner": 64_000,
    "deepseek-v3": 64_000,
    "gemini-1.0": 30_720,
    "gemini-1.5": 1_000_000,
    "gemini-2.0-flash": 1_000_000,
    "gemini-2.5-flash": 1_000_000,
    "gemini-2.5-flash-image": 32_768,
    "gemini-2.5-flash-preview-tts": 8_192,
    "gemini-2.5-pro": 1_000_000,
    "gemini-2.5-pro-preview-tts": 8_192,
    "gemini-3-flash": 1_000_000,
    "gemini-3-pro": 1_000_000,
    "gemini-3-pro-image": 65_536,
    "gemini-pro": 30_720,
    "glm-4": 32_000,
    "glm-4.5": 128_000,
    "glm-4.5v": 64_000,
    "glm-4.6": 200_000,
    "glm-4.6v": 128_000,
    "glm-4.7": 200_000,
    "glm-4.7-flash": 128_000,
    "glm-5": 200_000,
    "gpt-3.5-turbo": 16_385,
    "gpt-3.5-turbo-0301": 4_096,
    "gpt-3.5-turbo-0613": 4_096,
    "gpt-3.5-turbo-instruct": 4_096,
    "gpt-35-turbo": 4_096,
    "gpt-4": 8_192,
    "gpt-4-0125": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4-turbo": 128_000,
    "gpt-4-vision": 128_000,
    "gpt-4.1": 1_000_000,
    "gpt-4.5": 128_000,
    "gpt-4o": 128_000,
    "gpt-5": 272_000,
    "gpt-5-chat": 128_000,
    "gpt-5.1": 272_000,
    "gpt-5.1-chat": 111_616,
    "gpt-5.2": 272_000,
    "gpt-5.2-chat": 111_616,
    "gpt-5.3": 272_000,
    "gpt-5.3-chat": 111_616,
    "gpt-5.3-codex-spark": 128_000,
    "gpt-oss": 128_000,
    "grok-2": 131_072,
    "grok-2-vision": 32_768,
    "grok-3": 131_072,
    "grok-4": 128_000,
    "kimi-k2": 128_000,
    "llama-3": 8_192,
    "llama-3.1": 128_000,
    "llama-3.2": 128_000,
    "llama-3.3": 128_000,
    "llama-4": 128_000,
    "meta-llama-3": 8_192,
    "meta-llama-3.1": 128_000,
    "meta-llama-3.3": 128_000,
    "mistral-large": 32_000,
    "mistral-large-2407": 128_000,
    "mistral-large-2411": 128_000,
    "mistral-large-latest": 128_000,
    "mistral-medium": 32_000,
    "mistral-medium-2505": 128_000,
    "mistral-medium-latest": 128_000,
    "mistral-small": 32_000,
    "moonshot-v1": 8_192,
    "moonshot-v1-128k": 131_072,
    "moonshot-v1-32k": 32_768,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    "qwen-flash": 128_000,
    "qwen-long": 1_000_000,
    "qwen-max": 30_720,
    "qwen-plus": 128_000,
    "qwen-turbo": 128_000,
    "qwen2.5": 32_000,
    "qwen3": 32_000,
    "qwen3-coder": 128_000,
    "qwen3-max": 128_000,
}
"""Start of a model's name -> tokens that its input may have; where releases or hosts differ, the least."""

_REGION = re.compile(r"^(?:(?:us|eu|apac|global|jp|au|ca|us-gov)\.)?[a-z0-9]+\.(?=[a-z])")
"""Amazon Bedrock's names: a region, a vendor, the model, a version (`us.anthropic.claude-3-haiku-v1:0`)."""

_LOCAL_TAG = re.compile(r":(?:latest|e?[0-9.]+[bm])(?:-|$)")
"""Ollama's tags (`qwen3:8b`): the window is what that server is set to, not the model's."""

_TAG = re.compile(r"[:@][^:@]*$")
"""What some add to a name: `:free`, `:0`, `@20240620`."""


@lru_cache(maxsize=256)  # a comparison asks for each of its calls, of a few models
def bare_name(model: str) -> str:
    """A model's name in lower case, without the provider, region and tag that some put around it.

    `openai/gpt-4o`, `openai:gpt-4o` and `gpt-4o` are one name; so are `ft:gpt-4o:org::id` and
    `ft:gpt-4o`.
    """
    name = model.strip().lower().rpartition("/")[2]
    if name.startswith("ft:"):
        return ":".join(name.split(":")[:2])
    before, _, after = name.partition(":")
    if after and before.isalpha():  # a provider in front, not a tag behind
        name = after
    return _TAG.sub("", _REGION.sub("", name))


@lru_cache(maxsize=256)
def is_local(model: str) -> bool:
    """Whether the name has a tag of models that run on the user's own machine."""
    return bool(_LOCAL_TAG.search(model.lower()))


@lru_cache(maxsize=256)  # asked at every call
def context_window(model: str) -> int | None:
    """The window of a model by the longest prefix that fits; `None` for a model that is not known.

    A prefix fits where a word of the name ends: `gpt-4` says nothing about `gpt-4x`. Models that run
    on the user's own machine have no window here.
    """
    if is_local(model):
        return None
    name = bare_name(model).removeprefix("ft:")
    fitting = [start for start in MODEL_WINDOWS if begins(name, start)]
    return MODEL_WINDOWS[max(fitting, key=len)] if fitting else None


def begins(name: str, start: str) -> bool:
    """Whether a bare name begins with `start`, and a word of it ends there."""
    return name.startswith(start) and not name[len(start) : len(start) + 1].isalnum()
