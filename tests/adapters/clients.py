"""What the HTTP clients of all frameworks' apps need in tests."""

from __future__ import annotations

import ssl
from functools import cache


@cache
def no_certificates() -> ssl.SSLContext:
    """Loading the machine's certificates takes a tenth of a second, and there is nothing to verify."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
