"""The types of a session and of a model call, as pydantic models; no I/O."""
