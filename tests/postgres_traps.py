"""Operators and functions of somebody's that fit a statement better than the server's own, wherever it is not exact."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from tests.postgres_server import connected, new_schema, schema_of


OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "&", "||", "~", "!~", "~~")
FUNCTIONS = (
    *(
        "sum",
        "max",
        "count",
        "age",
        "format_type",
        "quote_ident",
        "obj_description",
        "hashtextextended",
    ),
    *("pg_advisory_xact_lock", "pg_relation_filenode", "pg_table_is_visible", "pg_partition_tree"),
    *("pg_get_expr", "current_schemas", "txid_snapshot_xmax"),
)
TYPES = (
    *(
        "text",
        "varchar",
        "bpchar",
        "name",
        '"char"',
        "int2",
        "int4",
        "int8",
        "numeric",
        "float8",
        "bool",
    ),
    *("bytea", "oid", "xid", "regclass", "regnamespace", "text[]", "name[]"),
)
_TRAP = (
    "LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''a trap % %'', pg_typeof(a), pg_typeof(b); END'"
)
_NATIVE = """
SELECT oprname, oprleft, oprright FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace
UNION SELECT proname, proargtypes[0], coalesce(proargtypes[1], 0) FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND pronargs IN (1, 2)
"""


def beside_traps(url: str) -> str:
    """The same schema of a store, with one of traps behind it in the search path.

    The server takes what fits exactly before what it must cast for, wherever it stands; of equals the first in the path.
    """
    path = f"-csearch_path={schema_of(url)},{_schema()}"
    return make_url(url).update_query_dict({"options": path}).render_as_string(hide_password=False)


@cache
def _schema() -> str:
    """The schema of this process's traps, which goes with it."""
    schemas = new_schema()
    url = schemas.__enter__()
    atexit.register(schemas.__exit__, None, None, None)
    with connected(url) as connection:
        connection.execute("; ".join(_statements(connection)))
    return schema_of(url)


def _statements(connection: psycopg.Connection[Any]) -> Iterator[str]:
    cursor = connection.execute(
        "SELECT t, t::regtype::oid FROM unnest(%s::text[]) AS t", [[*TYPES]]
    )
    oids = dict(cursor.fetchall())
    native = {*connection.execute(_NATIVE)}
    arities = {(name, bool(right)) for name, _, right in native}
    for left, right in product(TYPES, TYPES):
        yield f"CREATE FUNCTION trap(a {left}, b {right}) RETURNS bool {_TRAP}"
        for name in OPERATORS:
            if (name, oids[left], oids[right]) not in native:
                yield f"CREATE OPERATOR {name} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = trap)"
        for name in FUNCTIONS:
            if (name, True) in arities and (name, oids[left], oids[right]) not in native:
                yield f"CREATE FUNCTION {name}(a {left}, b {right}) RETURNS bool {_TRAP}"
    for own in TYPES:
        for name in FUNCTIONS:
            if (name, False) in arities and (name, oids[own], 0) not in native:
                yield f"CREATE FUNCTION {name}(a {own}) RETURNS bool {_TRAP}".replace(
                    "pg_typeof(b)", "0"
                )
