"""Mutants of a source file: the same file with one place broken.

Each has one of the faults that one makes in formulas: a sign, a factor, an index or an axis, a comparison that
is flipped or off by one, a term or a function that is left out. Left alone are docstrings, other texts, what is
raised, defaults of parameters, and shapes of arrays that are written before they are read.
"""

import ast
import re
from dataclasses import dataclass

_SWAPS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.Pow: "*",
    ast.LShift: ">>", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
_OPPOSITES = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_NEIGHBOURS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_DROPPED = {
    "exp", "expm1", "log", "log1p", "log2", "sqrt", "abs", "fabs", "erf", "sinh", "arcsinh", "ndtr", "ndtri",
    "log_ndtr", "expit", "ravel", "clip", "floor", "where", "cumsum", "sort", "copysign", "softmax", "multiply_add",
    "subtract", "multiply", "mean", "std", "any", "all",
}  # fmt: skip
_OTHERS = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "argmax": "argmin",
    "argmin": "argmax", "mean": "sum", "ones_like": "zeros_like", "zeros_like": "ones_like", "any": "all",
    "all": "any", "ones": "zeros", "multiply": "subtract", "subtract": "multiply",
}  # fmt: skip
_FLOATS = {0.0: "1.0", 1.0: "2.0", 2.0: "1.0", 0.5: "1.0"}


@dataclass(frozen=True)
class Mutant:
    """One broken place: its name, which outlives changes elsewhere in the file, and the whole broken source."""

    path: str
    function: str
    line: str
    change: str
    number: int
    source: str

    @property
    def name(self):
        """What results are stored under."""
        return f"{self.path} | {self.function} | {self.line} | {self.change} | {self.number}"


def python_mutants(path, source):
    """Return all mutants of a Python file, in the order of their places."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return _named(path, source, sorted(finder.found, key=lambda found: found[:2]))


_CUDA = [
    (r" \+ ", " - "), (r"(?<=[\w\])]) - ", " + "), (r" \* (?=[\w(*])", " / "), (r" / ", " * "), (r"\+= ", "-= "), (r"-= ", "+= "),
    (r"\*= ", "/= "), (r" < ", " <= "), (r" <= ", " < "), (r" >= ", " > "), (r" > ", " >= "), (r" == ", " != "),
    (r" != ", " == "), (r"(?<![\w.])2\.0", "1.0"), (r"(?<![\w.])1\.0", "2.0"), (r"(?<![\w.])0\.0(?!,)", "1.0"),
    (r"\bfmax\(", "fmin("), (r"\bexp\(", "("), (r"\blog1p\(", "("), (r"\blog\(", "("), (r"\bfabs\(", "("),
    (r"\berf\(", "("), (r"\bnormalised \?", "!normalised ?"), (r"if \((model\.)?normalised\)", "if (!\\1normalised)"),
    (r"(?<=\[)0(?=\])", "1"), (r"(?<=\[)1(?=\])", "2"), (r"(?<=\[)2(?=\])", "1"), (r"(?<= )2 \* ", "1 * "), (r"(?<= )3 \* ", "2 * "),
    (r"(?<== )0(?=;)", "1"), (r"\+\+", "+=2 "), (r" && ", " || "),
]  # fmt: skip


def cuda_mutants(path, source):
    """Return mutants of the CUDA source, made by replacing text."""
    found, start, function = [], 0, ""
    for line in source.splitlines(keepends=True):
        code = line.split("//")[0]
        named = (
            re.search(r"(?:void|double) (\w+)\(", code) if code.startswith(("__device__", "extern")) else None
        )
        function = named.group(1) if named else function
        if not code.startswith(("#", "extern", "enum", "typedef")) and function:
            for pattern, new in _CUDA:
                for match in re.finditer(pattern, code):
                    place = start + match.start(), start + match.end()
                    found.append((*place, match.expand(new), function, match.group().strip()))
        start += len(line)
    return _named(path, source, sorted(found, key=lambda f: f[:2]))


def _named(path, source, found):
    mutants, counts = [], {}
    for start, stop, new, function, _ in found:
        first = source.rfind("\n", 0, start) + 1
        end = source.find("\n", start)
        line = " ".join(source[first:end].split())
        old = " ".join(source[start:stop].split())
        change = f"{old} -> {' '.join(new.split())}"
        key = function, line, change
        counts[key] = counts.get(key, 0) + 1
        broken = source[:start] + new + source[stop:]
        mutants.append(Mutant(path, function, line, change, counts[key], broken))
    return mutants


class _Finder(ast.NodeVisitor):
    def __init__(self, source):
        self.source, self.found, self.functions = source, [], []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = [line.encode() for line in source.splitlines(keepends=True)]

    def _place(self, line, column):
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def _span(self, node):
        return self._place(node.lineno, node.col_offset), self._place(node.end_lineno, node.end_col_offset)

    def _text(self, node):
        start, stop = self._span(node)
        return self.source[start:stop]

    def _put(self, node, new):
        function = ".".join(self.functions) or "module"
        self.found.append((*self._span(node), new, function, ""))

    def _function(self, node):
        self.functions.append(node.name)
        for child in node.body:
            self.visit(child)
        self.functions.pop()

    visit_FunctionDef = _function

    def visit_ClassDef(self, node):
        self.functions.append(node.name)
        for child in node.body:
            # fields and their defaults are interface
            if not isinstance(child, ast.AnnAssign | ast.Assign):
                self.visit(child)
        self.functions.pop()

    def visit_Lambda(self, node):
        self.visit(node.body)

    def visit_Raise(self, node):
        pass

    def visit_JoinedStr(self, node):
        pass

    def visit_Import(self, node):
        pass

    def visit_BinOp(self, node):
        left, right = self._text(node.left), self._text(node.right)
        swap = _SWAPS.get(type(node.op))
        if isinstance(node.left, ast.List) or (
            isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        ):
            swap = None
        if swap:
            self._put(node, f"(({left}) {swap} ({right}))")
            if not isinstance(node.op, ast.Mod | ast.LShift):
                self._put(node, f"({left})")
        if isinstance(node.op, ast.Mult) and not isinstance(node.left, ast.Constant):
            self._put(node, f"({right})")
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        swap = _SWAPS.get(type(node.op))
        if swap:
            target, value = self._text(node.target), self._text(node.value)
            self._put(node, f"{target} {swap}= ({value})")
            self._put(node, "pass")
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.USub | ast.Not):
            self._put(node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_Compare(self, node):
        if len(node.ops) == 1:
            left, right = self._text(node.left), self._text(node.comparators[0])
            for table in (_OPPOSITES, _NEIGHBOURS):
                if type(node.ops[0]) in table:
                    self._put(node, f"(({left}) {table[type(node.ops[0])]} ({right}))")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        other = " or " if isinstance(node.op, ast.And) else " and "
        self._put(node, "(" + other.join(f"({self._text(value)})" for value in node.values) + ")")
        self.generic_visit(node)

    def visit_IfExp(self, node):
        self._put(node, f"({self._text(node.body)})")
        self._put(node, f"({self._text(node.orelse)})")
        self.generic_visit(node)

    def _branch(self, node):
        if not any(isinstance(child, ast.Raise) for child in node.body):
            if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
                self._put(node.test, f"(not {self._text(node.test)})")
            self.visit(node.test)
        for child in [*node.body, *node.orelse]:
            self.visit(child)

    visit_If = visit_While = _branch

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in {"empty", "empty_like", "warn", "errstate", "isinstance", "getattr", "check_positive"}:
            return
        if name in _DROPPED:
            is_method = isinstance(node.func, ast.Attribute) and not self._is_module(node.func.value)
            self._put(
                node, f"({self._text(node.func.value if is_method or not node.args else node.args[0])})"
            )
        if name in _OTHERS:
            start, stop = self._span(node.func)
            new = self.source[start:stop][: -len(name)] + _OTHERS[name]
            self._put(node.func, new)
        for keyword in node.keywords:
            if keyword.arg == "axis" and isinstance(keyword.value, ast.Constant):
                self._put(keyword.value, "0" if keyword.value.value else "1")
        self.visit(node.func)
        for child in node.args:
            self.visit(child)
        for keyword in node.keywords:
            if keyword.arg not in {
                "axis",
                "dtype",
                "maxsize",
                "rtol",
                "atol",
                "stacklevel",
                "keepdims",
                "strict",
            }:
                self.visit(keyword.value)

    @staticmethod
    def _is_module(node):
        return (isinstance(node, ast.Name) and node.id in {"np", "xp", "math", "numba"}) or (
            isinstance(node, ast.Attribute) and node.attr == "_xp"
        )

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if isinstance(value, float):
            self._put(node, _FLOATS.get(value) or repr(1.5 * value))
        else:
            self._put(node, str(value + 1))
