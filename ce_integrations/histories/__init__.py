"""Reads conversations that apps keep as JSON, in the forms of OpenAI, LangChain and LlamaIndex, without a framework."""
