"""Conditions over the parameters of a cell, as in `exclude = ["streams > 4"]`.

A small evaluator over Python's own syntax tree: names, numbers, strings, lists,
comparisons, and/or/not, and arithmetic. Nothing can be called or looked into, so
a scenario from anywhere can do nothing but compare.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from venturi.common.suffixes import parse_count, parse_duration
from venturi.common.texts import meant

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
# Python's own parser gives up on deep nesting in several ways, some of which end the process.
_MOST_LETTERS = 2000


class Condition:
    """One condition; raises ValueError where it is not one, or names something unknown."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > _MOST_LETTERS:
            raise ValueError(f"a condition has {len(text):,} characters; the most are {_MOST_LETTERS:,}")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(
                f"{text!r} is not a condition; write, for example, \"operation == 'put' and streams > 4\""
            ) from None

    def __call__(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the condition holds for these parameters."""
        try:
            return bool(self._value(self._tree, parameters))
        except TypeError:
            raise ValueError(f"{self.text!r} compares values of different types") from None
        except ZeroDivisionError:
            raise ValueError(f"{self.text!r} divides by zero") from None
        except OverflowError:
            raise ValueError(f"{self.text!r} makes a number that is too large") from None
        except RecursionError:
            raise ValueError(f"{self.text!r} is nested too deeply") from None

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str | None):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id, names)
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(item, names) for item in node.elts]
        if isinstance(node, ast.BoolOp):
            decisive = isinstance(node.op, ast.Or)
            values = (bool(self._value(part, names)) for part in node.values)
            return any(values) if decisive else all(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self._value(node.operand, names)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand, names)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            operands = [_number_like(self._value(part, names), 0) for part in (node.left, node.right)]
            # Numbers only: "'x' * 10**9" would fill the memory.
            if not all(isinstance(value, int | float) for value in operands):
                raise TypeError(self.text)
            return _ARITHMETIC[type(node.op)](*operands)
        if isinstance(node, ast.Compare):
            return self._compare(node, names)
        raise ValueError(f"{self.text!r}: {ast.unparse(node)!r} is not allowed in a condition")

    def _name(self, name: str, names: Mapping[str, Any]) -> Any:
        if name in ("true", "false"):
            return name == "true"
        if name == "none":
            return None
        if name not in names:
            hint = meant(name, names, f"known: {', '.join(sorted(names))}")
            raise ValueError(f"{self.text!r}: no parameter is called {name}; {hint}")
        return names[name]

    def _compare(self, node: ast.Compare, names: Mapping[str, Any]) -> bool:
        left = self._value(node.left, names)
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._value(right_node, names)
            if type(kind) not in _COMPARISONS:
                raise ValueError(f"{self.text!r}: {ast.unparse(node)!r} is not allowed in a condition")
            a, b = _number_like(left, right), _number_like(right, left)
            # A parameter that is not set (null) is neither above nor below anything.
            ordered = isinstance(kind, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
            if ordered and (a is None or b is None):
                return False
            if not _COMPARISONS[type(kind)](a, b):
                return False
            left = right
        return True


def _number_like(value: Any, other: Any) -> Any:
    """Reads "10M" as a number where it is compared with one; "2s" as nanoseconds."""
    if not isinstance(value, str) or isinstance(other, bool) or not isinstance(other, int | float):
        return value
    for parse in (parse_count, parse_duration):
        try:
            return parse(value)
        except ValueError:
            continue
    return value
