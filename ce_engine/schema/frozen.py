"""Dicts and lists that nobody can change: what a frozen configuration holds (D-16)."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "a configuration is frozen: make another one, "
        "config.model_copy(update={...}) or RuntimeConfig(...)"
    )


class FrozenDict(dict[Any, Any]):
    """A dict that refuses changes; copies of it (`dict(...)`, `copy.copy`) may be changed or are itself."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


class FrozenList(list[Any]):
    """A list that refuses changes, in the same way."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)


def frozen(value: Any) -> Any:
    """The value with dicts and lists in it that refuse changes."""
    if type(value) is dict:
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if type(value) is list:
        return FrozenList(frozen(item) for item in value)
    return value
