"""How large a regular expression becomes when it is compiled: a repeat is written out as often as it must match."""

from __future__ import annotations

import re


MAX_EXPANDED = 20_000
"""Parts of a pattern with its least repeats written out: some 50 ms. `((((a{99}){99}){99}){99})` takes all memory."""

_LEAST = re.compile(r"\{\s*([0-9]+)\s*(?:,\s*[0-9]*\s*)?\}")
_UNCERTAIN = re.compile(r"\(\?[a-zA-Z0-9]*[xV]|\(\?\#|\[\^?\]?[^\]]*\[")
"""Verbose patterns and comments may hide a bracket; so may a set in a set."""

_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]?", re.DOTALL)


def is_large(pattern: str) -> bool:
    """Whether compiling the pattern would take long, or much memory; an upper bound."""
    return expanded(pattern) > MAX_EXPANDED


def expanded(pattern: str) -> int:
    """About how many parts the pattern has with each repeat written out as often as it must match, at least."""
    if _UNCERTAIN.search(pattern):
        return _all_nested(pattern)
    open_groups, last, at = [0], 0, 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "{" and (least := _LEAST.match(pattern, at)):
            # What is repeated is counted once already.
            more = last * (max(1, min(int(least[1][:9]), 10**9)) - 1)
            open_groups[-1] += more
            last += more
            at = least.end()
            continue
        if sign == "(":
            open_groups.append(0)
        elif sign == ")":
            last = open_groups[-1]
            if len(open_groups) > 1:  # else it is no group's end, and all before it counts as one
                open_groups.pop()
                open_groups[-1] += last
        elif sign not in "*+?|":
            last = 1
            open_groups[-1] += 1
        at = _end(pattern, at)
    return sum(open_groups)


def _end(pattern: str, at: int) -> int:
    if pattern[at] == "\\":
        return at + 2
    if pattern[at] == "[" and (match := _SET.match(pattern, at)):
        return match.end()
    return at + 1


def _all_nested(pattern: str) -> int:
    """As if each repeat held all others."""
    size = len(pattern)
    for least in _LEAST.finditer(pattern):
        size *= max(1, int(least[1][:9]))
    return size
