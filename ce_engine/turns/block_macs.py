"""MACs of the instructions that an app stores with a session: who only writes the store gives no order (B-01, A-10)."""

from __future__ import annotations

import hashlib
from hmac import compare_digest

from ce_engine.schema.document import ContextBlock
from ce_engine.schema.enums import BlockType
from ce_engine.schema.ids import chain_keys
from ce_engine.schema.json_text import canonical_json
from ce_engine.schema.scope import Scope


def gives_orders(block: ContextBlock) -> bool:
    """Whether a block may stand in the system's role: an instruction in its owner's own words."""
    return block.block_type is BlockType.INSTRUCTION and not block.refs


def mac_of(secret: bytes, scope: Scope, block: ContextBlock) -> str:
    """The MAC of a block of this session, as it is stored."""
    fields = [block.block_id, block.block_type, block.priority, block.content]
    more = [block.created_at, block.sensitivity]
    text = canonical_json([*fields, *more]).encode("utf-8", "surrogatepass")
    key = chain_keys(secret, scope.key).own
    return hashlib.blake2b(text, key=key, digest_size=16, person=b"block").hexdigest()


def is_genuine(secret: bytes, scope: Scope, block: ContextBlock) -> bool:
    """Whether the engine stored it so: one of an older release, without a MAC, cannot be told from a forged one."""
    expected = mac_of(secret, scope, block)
    return compare_digest((block.mac or "").encode(errors="replace"), expected.encode())
