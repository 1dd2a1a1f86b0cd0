"""The switches of language, colours and columns: cookies of this browser, nothing stored."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ce_engine.apps.present.language import languages
from ce_engine.apps.web.page import LANGUAGE_COOKIE, THEME_COOKIE, THEMES
from ce_engine.apps.web.pages.sessions import COLUMNS, COLUMNS_COOKIE


YEAR_S = 365 * 24 * 3600


async def preferences(request: Request) -> Response:
    """Keep a choice and go back to where it was made."""
    answer = RedirectResponse(local(request.query_params.get("back", "/")), 303)
    language = request.query_params.get("language", "")
    if language in languages():
        answer.set_cookie(LANGUAGE_COOKIE, language, YEAR_S, samesite="strict", httponly=True)
    theme = request.query_params.get("theme")
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, YEAR_S, samesite="strict", httponly=True)
    elif theme is not None:
        answer.delete_cookie(THEME_COOKIE)
    if "columns" in request.query_params:
        columns = [name for name in request.query_params.getlist("column") if name in COLUMNS]
        cookie = ".".join(columns)
        answer.set_cookie(COLUMNS_COOKIE, cookie, YEAR_S, samesite="strict", httponly=True)
    return answer


def local(address: str) -> str:
    """The address, if it is of this server; else the first page's."""
    is_path = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_path and address.isprintable() else "/"


routes = [Route("/preferences", preferences)]
