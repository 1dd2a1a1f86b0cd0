"""The small forms in which a database keeps names, times and data: ids as bytes, JSON deflated."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ce_engine.schema.text_cache import text_cache
from ce_engine.stores.codec import from_json, to_json


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_UTC = _EPOCH.replace(tzinfo=None)
_MS = timedelta(milliseconds=1)


def _hex(data: bytes) -> str:
    return data.hex()


def _uuid(data: bytes) -> str:
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _nonce(data: bytes) -> str:
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:]}"


def _link(data: bytes) -> str:
    return f"c1:{data.hex()}"


def _link_2(data: bytes) -> str:
    return f"c2:{data.hex()}"


def _time(data: bytes) -> str:
    at = _IN_UTC + int.from_bytes(data) * _MS
    return f"{at.isoformat(timespec='milliseconds')}Z"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_KNOWN = (
    *("langchain", "patterns/1", "tiktoken/", "chat", "helper"),
    *("user", "assistant", "tool", "task", "answer", "tool_call", "tool_result", "colleague"),
    *("MessageAppended", "EvidenceIngested", "PruneCompleted", "ToolCalled", "ToolCallCompleted"),
    *("user_input", "final", "host_summary", "AssistantMessageFinalized", "off"),
    *(f"patterns/{version}" for version in range(2, 10)),
)
"""Words that are kept by their place. Files have it: more may follow, none may move."""
_PLACES = {word: b"w" + bytes([place]) for place, word in enumerate(_KNOWN)}


def _word(data: bytes) -> str:
    return _KNOWN[data[0]]


_LONG: dict[bytes, Callable[[bytes], str]] = {
    b"=": _text,
    b"w": _word,
    b"u": _uuid,
    b"n": _nonce,
    b"h": _hex,
    b"c": _link,
    b"C": _link_2,
    b"t": _time,
}
"""By its first byte, what makes the text of the others. Files have them: none may change."""
_BY_LENGTH = {36: b"u", 18: b"n", 32: b"h", 43: b"C"}
_OLDER = "c1:"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@text_cache(maxsize=256)  # the ids of a turn stand in every row of it
def shorten(text: str) -> bytes:
    """Any text as few bytes: ids, hashes and times as what they say. Equal texts have equal forms."""
    if (form := _PLACES.get(text)) is not None:
        return form
    tag = _BY_LENGTH.get(len(text))
    try:
        if tag is not None:
            if text.startswith(_OLDER):
                tag = b"c"
            data = bytes.fromhex(text.removeprefix("c2:").removeprefix(_OLDER).replace("-", ""))
            if _LONG[tag](data) == text:
                return tag + data
        elif _TIME.fullmatch(text):
            return b"t" + ((datetime.fromisoformat(text) - _EPOCH) // _MS).to_bytes(6)
    except (ValueError, OverflowError):
        pass  # it only looked like one
    return b"=" + text.encode("utf-8", "surrogatepass")


def lengthen(data: bytes | str) -> str:
    """The text that was shortened; what somebody else wrote there, as it is."""
    if isinstance(data, str):
        return data
    try:
        return _LONG[data[:1]](data[1:])
    except (KeyError, ValueError, IndexError, OverflowError):
        return data.decode("utf-8", "replace")


_WORDS = (
    b'{"rules_applied":[],"fields_redacted":1}]{"status":"error","code":"'
    b'{"call_id":"","tool_calls":[{"id":"call_","name":"","args":{}}],"tool_call_id":"\x01:0"}'
    b'{"tool":"","provider":{"kind":"builtin"},"type":"function_call","called_at":"2026-",'
    b'"args_digest":{},"status":"success","duration_ms":1,"result_evidence_ids":["\x01"]}'
    b'{"type":"tool_result","source":{"kind":"tool","name":""},"confidence":0.9,"metadata":{'
    b'"message_id":"\x01","links":[{"tool_call_id":"\x01'
    b'{"type":"rag_doc","source":{"kind":"rag","name":"","uri":""},"metadata":{"rank":0,"score":0.'
    b',"score_kind":"","document_id":""'
    b'"settings":{"budget":{"max_input_tokens":4000,"reserved_reply_tokens":1000}}}}}'
    b'"documents":["saved":{"now":"2026-"materials":[["differs":{"tokens":{"extras":{"tools":'
    b'"window":128000,"warnings":["CONTEXT_BUDGET_UNKNOWN"],"degradations":["degraded",'
    b'"reason":"older_tool_result","older_step_of_this_turn","shortened":1,"over_budget":true'
    b'{"provider":"openai","model":"gpt-4o-mini","stage":"answer","prompt_tokens":'
    b'"completion_tokens":,"total_tokens":,"latency_ms":,"estimated":true}'
    b'{"groups_dropped":2,"shortened":0,"reasons":{"below_cut":1}}'
    b'{"type":"llm_output","source":{"kind":"llm","name":"gpt-4o-mini"},"confidence":0.5,'
    b'"metadata":{"turn_id":"\x01","finish_reason":"stop","created_at":"2026-"},'
    b'"links":{"model_usage_id":"\x01"}}{"evidence_id":"\x01","type":"llm_output"}'
    b'{"tags":{"framework":"langchain"}}{"message_id":"\x01","origin":"task"}"origin":"answer"}'
    b'{"refs":[{"evidence_id":"\x01"},{"evidence_id":"\x01"},{"evidence_id":"\x01"}]}'
    b'{"prune_decisions":[{"block_id":"m:\x01","action":"kept","reason":"fits","token_estimate":'
    b',"count":2},{"block_id":"\x01","action":"dropped","reason":"below_cut","token_estimate":'
    b',"count":9},{"block_id":"\x01","action":"kept","reason":"fits","token_estimate":100},'
    b'{"block_id":"\x01","action":"kept","reason":"never_out","token_estimate":39}],'
    b'"token_budget":3000,"token_used":2961,"tokens_before":50,"messages_in":2,'
    b'"messages_sent":30,"kept":2,"dropped":1,"inserted":1,"restored":28,'
    b'"layers":{"rules":{"tokens":8},"settings":{},"retrieved":{"tokens":1028,'
    b'"chunks":12},"immediate":{"tokens":1922,"truncated":true}},"payload_tokens":{"system":8,'
    b'"tools":0,"response_format":0,"injected":1028,"task":39,"history":1883},'
    b'"stable_prefix_hash":"mac:\x02","stable_prefix_unchanged":true,"prefix_tokens_unchanged":8,'
    b'"estimator":"tiktoken o200k_base + 20 % (upper bound)",'
    b'"injected_evidence_ids":["\x01","\x01","\x01"],"framework":"langchain",'
    b'"extra":{"replay":{"hash":"r1:\x02","messages":[199,"\x01"],"evidence":[99,"\x01"],'
    b'"line":[["\x03\x23",1]],"system":[[0,"\x02",8]],"estimator":"tiktoken/",'
    b'"marks":["\x01",null,3000],"bring":["\x03\x23",[]],"pruner":"GreedyPriorityPruner",'
    b'"config":"\x02"}}}'
)
"""What data of ours mostly says; deflated data refer to it by place. Files have it: it may not change."""
_DEFLATE = zlib.compressobj(6, zlib.DEFLATED, -12, 5, zlib.Z_DEFAULT_STRATEGY, _WORDS)
"""Has read the words and nothing else: to copy it takes a tenth of reading them again."""
_ID = re.compile(rb"[\":](?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})")
"""With the character before it: so few places need a closer look."""
_UUID, _HEX, _AGAIN = _MARKS = b"\1\2\3"
"""What stands for an id, in either form, or, before its place, for one that was there before."""
_NO_MARKS = bytes(byte for byte in range(256) if byte not in _MARKS)
_ALIKE = bytes.maketrans(_MARKS, b"\1\1\1")
_MOST_IDS = 0xFFFF
MOST_BYTES = 1 << 28
"""Of one column, inflated: a thousand times less may lie in a file that somebody else made."""
_NEAR = range(0x20, 0x7F)
"""An id that was there before stands as its place among the ids, where that is one character."""


def pack(value: Any) -> bytes:
    """Plain data: its ids and hashes as bytes, then the rest of its JSON, deflated."""
    return _packed(to_json(value))


@text_cache(maxsize=16)  # a turn's report is written twice, its tags with every event
def _packed(text: str) -> bytes:
    ids: dict[bytes, int] = {}

    def mark(match: re.Match[bytes]) -> bytes:
        before, name = match[0][:1], match[0][1:]
        place = ids.get(name)
        if place is not None and place + _NEAR.start in _NEAR:
            return b"%c\x03%c" % (before[0], place + _NEAR.start)
        if place is not None or len(ids) == _MOST_IDS:
            return match[0]
        ids[name] = len(ids)
        return before + (b"\x01" if len(name) == 36 else b"\x02")

    rest = _ID.sub(mark, text.encode())
    deflate = _DEFLATE.copy()
    raw = b"".join(bytes.fromhex(name.replace(b"-", b"").decode()) for name in ids)
    return len(ids).to_bytes(2) + raw + deflate.compress(rest) + deflate.flush()


def unpack(data: bytes | str) -> Any:
    """The data that was packed; what somebody else wrote there as JSON.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(data, str):
        return from_json(data)
    start = 2 + 16 * int.from_bytes(data[:2])
    try:
        inflate = zlib.decompressobj(-15, _WORDS)
        rest = inflate.decompress(data[start:], MOST_BYTES)
        if inflate.unconsumed_tail:
            raise ValueError(
                f"a column of the store has more than {MOST_BYTES} bytes deflated in it"
            )
        return from_json(_unmarked(rest, data[2:start].hex()))
    except (zlib.error, IndexError) as error:
        raise ValueError("what a column of the store has is no packed data") from error


def _unmarked(rest: bytes, digits: str) -> str:
    """JSON with its ids again; a session has thousands of reports, so that each mark costs little.

    Raises:
        IndexError: there is a mark of no id.
        ValueError: it is no text.
    """
    kinds = rest.translate(None, _NO_MARKS)
    parts = rest.translate(_ALIKE).decode().split("\1")
    names, at = list[str](), 0
    for place, kind in enumerate(kinds, start=1):
        if kind == _AGAIN:
            part = parts[place]
            parts[place] = names[ord(part[0]) - _NEAR.start] + part[1:]
            continue
        name = digits[at : at + 32]
        at += 32
        if kind == _UUID:
            name = f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
        names.append(name)
        parts[place] = name + parts[place]
    if at > len(digits):
        raise IndexError("fewer ids than marks")
    return "".join(parts)
