"""Lines of code of a source file, and of what an operator of the ONNX front end costs."""

import ast
import tokenize
from pathlib import Path

import tilewright.graph.frontends.onnx as front_end
from tilewright.graph.frontends.onnx.operators import OPERATORS

_SPACE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
          tokenize.ENDMARKER)  # fmt: skip


def code_lines(path: Path) -> int:
    """Lines with code, without those of docstrings and comments alone."""
    with path.open(encoding="utf-8") as source:
        tokens = [t for t in tokenize.generate_tokens(source.readline) if t.type not in _SPACE]
    lines = {line for t in tokens for line in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def lines_of_an_operator() -> float:
    """Code of all translators, tables and folds, their imports included, over the operators."""
    folder = Path(front_end.__file__).parent
    paths = [*(folder / "operators").glob("*.py"), folder / "fold.py", folder / "shapes.py"]
    return sum(map(code_lines, paths)) / len(OPERATORS)
