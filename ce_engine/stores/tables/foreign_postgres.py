"""What of a PostgreSQL server's catalog may show calls other rows of our tables than are stored, or change what is written (B-01)."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, text

from ce_engine.stores.tables import tables


_NAMES = {"names": list(tables.metadata.tables)}
_PATH = "SELECT pg_catalog.current_schemas(true)"
_CATALOG, _TEMPORARY = "pg_catalog", "pg_temp"

_FOREIGN = text(
    """
WITH RECURSIVE ours AS (
    SELECT c.oid, c.relname::text AS name, c.relrowsecurity OR c.relforcerowsecurity AS has_row_security,
        c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
            AND n.nspname = current_schema() AS is_plain
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = ANY (:names) AND pg_catalog.pg_table_is_visible(c.oid)
UNION ALL
    SELECT c.oid, c.relname::text, c.relrowsecurity OR c.relforcerowsecurity,
        c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.relispartition
    FROM ours JOIN pg_catalog.pg_inherits i ON i.inhparent = ours.oid
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
)
SELECT name, 'is no plain table of the schema' FROM ours WHERE NOT is_plain
UNION ALL SELECT name, 'has row security' FROM ours WHERE has_row_security
UNION ALL SELECT name, 'has the policy ' || p.polname::text FROM ours JOIN pg_catalog.pg_policy p ON p.polrelid = ours.oid
UNION ALL SELECT name, 'has the rule ' || r.rulename::text FROM ours JOIN pg_catalog.pg_rewrite r ON r.ev_class = ours.oid
UNION ALL SELECT name, 'has the trigger ' || t.tgname::text FROM ours
    JOIN pg_catalog.pg_trigger t ON t.tgrelid = ours.oid WHERE NOT t.tgisinternal
UNION ALL SELECT name, 'inherits' FROM ours JOIN pg_catalog.pg_inherits i ON i.inhrelid = ours.oid
    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE NOT c.relispartition
UNION ALL SELECT name, 'has the constraint ' || k.conname::text FROM ours
    JOIN pg_catalog.pg_constraint k ON k.conrelid = ours.oid WHERE k.contype IN ('c', 'x', 't')
UNION ALL SELECT name, 'has the index ' || x.relname::text FROM ours
    JOIN pg_catalog.pg_index i ON i.indrelid = ours.oid JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
    WHERE i.indexprs IS NOT NULL OR pg_catalog.replace(pg_catalog.pg_get_expr(i.indpred, ours.oid), '"'::text, ''::text) <> '(status = ''open''::text)'
UNION ALL SELECT name, 'has the column ' || a.attname::text FROM ours
    JOIN pg_catalog.pg_attribute a ON a.attrelid = ours.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
    LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
    WHERE a.attgenerated <> '' OR y.typnamespace <> 'pg_catalog'::regnamespace::oid
        OR l.collnamespace <> 'pg_catalog'::regnamespace::oid
UNION ALL SELECT name, 'computes ' || pg_catalog.pg_get_expr(d.adbin, ours.oid) FROM ours
    JOIN pg_catalog.pg_attrdef d ON d.adrelid = ours.oid
    WHERE pg_catalog.replace(pg_catalog.pg_get_expr(d.adbin, ours.oid), '"'::text, ''::text) !~ '^nextval[(]''[^'']*ce_[a-z_]+_seq''::regclass[)]$'
ORDER BY 1, 2
"""
)
"""What our tables have that is none of ours, and may decide what is read or written. Partitions are an operator's to make; tables beside ours
are others'. `pg_get_expr` locks the table that it is asked of: with `ours.oid` it is asked of ours alone, once they are known."""


def foreign(connection: Connection) -> Iterator[str]:
    """What there is, in a few words each."""
    path = [str(name) for name in connection.exec_driver_sql(_PATH).scalar_one()]
    if next((name for name in path if not name.startswith(_TEMPORARY)), "") != _CATALOG:
        yield f"the search path, in which {_CATALOG} is not first"  # anybody's operators stand for the server's own
        return
    for table, problem in connection.execute(_FOREIGN, _NAMES).all():
        yield f"the table {table} {problem}"


__all__ = ["foreign"]
