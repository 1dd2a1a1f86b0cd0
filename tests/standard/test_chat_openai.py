"""LangChain's standard tests of a chat model, on `ChatOpenAI` and our strict server."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests


NOBODY = "http://127.0.0.1:9/v1"
"""An address where nobody listens: the unit tests send nothing."""
PARAMS = {"model": "wire", "api_key": "no key", "max_retries": 0, "stream_usage": True}
DETAILS = {"invoke": ["cache_read_input"], "stream": ["cache_read_input"]}


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**PARAMS, "base_url": NOBODY}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        environment = {
            "OPENAI_API_KEY": "a key",
            "OPENAI_ORG_ID": "an organisation",
            "OPENAI_API_BASE": NOBODY,
        }
        expected = {
            "openai_api_key": "a key",
            "openai_organization": "an organisation",
            "openai_api_base": NOBODY,
        }
        return environment, {"model": "wire"}, expected


@pytest.mark.usefixtures("wire")
class TestIntegration(ChatModelIntegrationTests):
    """Images, PDF and audio stay off: those tests fetch their files from the network."""

    base_url: ClassVar[str]

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {**PARAMS, "base_url": self.base_url}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return "another-wire"

    @property
    def supported_usage_metadata_details(self) -> Any:
        return DETAILS

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        model = ChatOpenAI(**self.chat_model_params)
        if not stream:
            return model.invoke("Hello")
        whole = None
        for chunk in model.stream("Hello"):
            whole = chunk if whole is None else whole + chunk
        assert isinstance(whole, AIMessage)
        return whole
