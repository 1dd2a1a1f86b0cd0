"""JSON Schema of what leaves us as JSON: the session document, the report, the trace and the handover (A-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ce_engine.errors import ConfigError
from ce_engine.schema.document import SCHEMA_VERSION, Schema, SessionDocument
from ce_engine.schema.handover import Handover
from ce_engine.schema.report import Report
from ce_engine.schema.trace import Trace
from ce_engine.schema.user_export import UserExport


EXPORTED: Mapping[str, type[Schema]] = {
    "document": SessionDocument,
    "report": Report,
    "trace": Trace,
    "handover": Handover,
    "export": UserExport,
}


def json_schema(name: str = "document") -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `document`, `report`, `trace`, `handover` or `export`.

    Raises:
        ConfigError: it is none of these.
    """
    if name not in EXPORTED:
        raise ConfigError(f"there is no schema of {name!r}; expected one of {', '.join(EXPORTED)}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:ce-integrations:{name}:{SCHEMA_VERSION}",
        **EXPORTED[name].model_json_schema(),
    }
