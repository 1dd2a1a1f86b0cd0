"""The environment variables that are read here, and those that look like them and are not."""

from __future__ import annotations

import os
from difflib import get_close_matches


PREFIX = "CE_"
STORE_URL = "CE_STORE_URL"
ORIGINALS_URL = "CE_ORIGINALS_URL"
SECRET = "CE_SECRET"  # noqa: S105 - the name of it
ENCRYPTION_KEY = "CE_ENCRYPTION_KEY"
GUARD = "CE_GUARD"
PRICES = "CE_PRICES"
AUDIT_LOG = "CE_AUDIT_LOG"
TELEMETRY = "CE_TELEMETRY"

KNOWN = {
    STORE_URL: "where sessions are kept",
    ORIGINALS_URL: "where originals of redacted content are kept, if anywhere",
    SECRET: "the install's secret, a long random text",
    ENCRYPTION_KEY: "what content is encrypted with at rest; several keys with commas, the first seals",
    PRICES: "what models cost, a file of TOML or JSON",
    AUDIT_LOG: "who looked at what, a file of JSON lines",
    TELEMETRY: "`otel` tells OpenTelemetry of the engine's work",
    GUARD: "`raise` lets faults of ours reach the app, for tests",
}
"""What each of them says."""


def unknown() -> dict[str, str]:
    """Variables that begin like ours and mean nothing here, each with the known one that is nearest."""
    names = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in KNOWN)
    return {name: next(iter(get_close_matches(name, KNOWN, n=1)), "") for name in names}
