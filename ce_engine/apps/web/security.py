"""Who may have a page: this machine's browser, from this page, with the token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ce_engine.apps.web.page import rendered, taste_of
from ce_engine.errors import ConfigError


TOKEN = "token"  # noqa: S105 - the name of a parameter
TOKEN_BYTES = 24
SHORTEST = 20
"""Characters of a token that somebody else made."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what a user may have bound
METHODS = ("GET", "HEAD")
UNGUARDED = "/static/"
"""Files of the page itself, the same for everybody."""
METRICS = "/metrics"
"""What programs read."""

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]{1,5})?")
"""Some releases of Starlette make a request's address of the header and the path, whatever is in it."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing stored could load or run anything, whatever stood in it: no inline style or script is one of ours."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

MOVED = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ce ui</title><link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0;url={address}"></head>'
    '<body><a href="{address}">ce ui</a></body></html>'
)
"""Not a redirect: where the link was followed from another site, a redirect would go without the cookie."""

SCHEME = "bearer"


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def read_or_make_token(path: Path) -> str:
    """The token in a file; where there is none, a new one is written there for this user alone.

    Raises:
        ConfigError: it cannot be read or written, everybody may read it, or it is too short to be safe.
    """
    try:
        with suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as out:
                out.write(f"{new_token()}\n")
        if os.name == "posix" and path.stat().st_mode & stat.S_IRWXO:
            raise ConfigError(f"everybody may read the token in {str(path)!r}: chmod 600 it")
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError(f"the token in {str(path)!r} cannot be read ({reason})") from error
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{str(path)!r} has no token of at least {SHORTEST} letters and digits: delete it, and "
            "`ce ui` writes a new one"
        )
    return token


@dataclass(frozen=True, slots=True)
class Access:
    """Who may.

    Attributes:
        token: what a first visit brings; a cookie keeps it.
        host: where it is bound, of which the `Host` header must be a name.
    """

    token: str = field(default_factory=new_token, repr=False)
    host: str = LOOPBACK[0]

    def knows_host(self, header: str) -> bool:
        """Whether a `Host` header names this server; a name of somebody else's may point here (DNS rebinding)."""
        name = _name_of(header)
        if name in (*LOOPBACK, self.host.lower()):
            return True
        return self.host in ANYWHERE and _is_address(name)

    def is_token(self, text: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(text.encode(), self.token.encode())


def _name_of(header: str) -> str:
    """The name of a `Host` header; none where more stands in it than a name and a port."""
    match = _HOST.fullmatch(header.strip().lower())
    return (match[1] or match[2]) if match else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Gate:
    """ASGI middleware before everything: method, host, origin, token; and the headers of all answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page has a web socket
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """What is answered in place of a page, if anything."""
        host = request.headers.get("host", "")
        say = taste_of(request).language
        if request.method not in METHODS:
            allowed = {"allow": ", ".join(METHODS)}
            return _refused(request, 405, say("This page is read only."), headers=allowed)
        if not self.access.knows_host(host):
            text = say("{host} is no name of this server.", host=_escape_start(host))
            return _refused(request, 421, text, say("Use 127.0.0.1."))
        if not _is_same_site(request.headers, host):
            return _refused(request, 403, say("It was asked for from another site."))
        # What is served goes by the scope's path, not by an address that the visitor has a part in.
        is_ours = request.scope["path"].startswith(UNGUARDED)
        return None if is_ours else self._unlocked(request, host)

    def _unlocked(self, request: Request, host: str) -> Response | None:
        """Nothing for who has the token in a cookie; a cookie for who brings it; else what to do."""
        query_token = request.query_params.get(TOKEN)
        kept_token = _bearer(request) or request.cookies.get(cookie_name(host), "")
        if not self.access.is_token(kept_token if query_token is None else query_token):
            return _locked(request)
        return None if query_token is None else _welcome(request, query_token)


def _bearer(request: Request) -> str:
    """The token that a program brings, which keeps no cookies: `Authorization: Bearer ...`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""


def _locked(request: Request) -> Response:
    say = taste_of(request).language
    if request.scope["path"] == METRICS:
        cure = say("Send it as `Authorization: Bearer TOKEN`; `ce ui --token-file FILE` keeps it.")
        return _refused(
            request, 401, say("This wants its token."), cure, {"www-authenticate": "Bearer"}
        )
    cure = say("Open the link that `ce ui` printed last, with `?token=...`.")
    return _refused(request, 403, say("This page wants its token."), cure)


def _welcome(request: Request, token: str) -> Response:
    """Keep the token in a cookie, and leave it out of the address."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    rest = urlencode([pair for pair in pairs if pair[0] != TOKEN])
    # One slash: two of them are another host's address.
    path = "/" + quote(request.scope["path"]).lstrip("/\\")
    answer = HTMLResponse(MOVED.format(address=escape(f"{path}?{rest}" if rest else path)))
    name = cookie_name(request.headers.get("host", ""))
    answer.set_cookie(name, token, httponly=True, samesite="strict", path="/")
    return answer


def cookie_name(host: str) -> str:
    """By the port, since browsers keep the cookies of all ports of a host together."""
    port = host.rpartition(":")[2]
    return f"ce_ui_{port}" if port.isdecimal() else "ce_ui"


def _is_same_site(headers: Headers, host: str) -> bool:
    """Whether this page, or nobody's, asks; a link from elsewhere may lead here, but no script may read it."""
    origin = headers.get("origin")
    if origin is not None and origin not in _origins(host):
        return False
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    return (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )


def _origins(host: str) -> Iterable[str]:
    return (f"http://{host}", f"https://{host}")


def _refused(
    request: Request,
    status: int,
    text: str,
    cure: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Say so: to a browser as a page, to a program on one line."""
    if "text/html" in request.headers.get("accept", ""):
        html = rendered(request, "refused.html", status=status, what=text, cure=cure)
        return HTMLResponse(html, status, headers)
    return PlainTextResponse(f"{status}: {' '.join(filter(None, (text, cure)))}\n", status, headers)


def _escape_start(text: str) -> str:
    return ascii(text[:80])


__all__ = ["Access", "Gate", "cookie_name", "new_token", "read_or_make_token"]
