"""Reading the text form: layout that does not matter, and what is refused, where and why."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ir_strategies import EXPLICIT, programs
from tilewright.common.errors import ProgramError
from tilewright.common.expr import Const, Var
from tilewright.ir.nodes import Barrier, Call, For, If, Program, Range, Transfer
from tilewright.ir.parser import parse
from tilewright.ir.primitive import Primitive
from tilewright.ir.primitives import Fill, MatrixProduct, WinogradInput
from tilewright.ir.primitives.registry import primitive_names
from tilewright.ir.printer import print_program


def _refusal(text: str) -> str:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    return str(caught.value)


def test_indentation_comments_and_passes_do_not_matter() -> None:
    text = """
        # A program may stand inside a function,
        def p(n,):
          # be indented as it likes,
          pass
          for i in range(1 * n): barrier(); barrier()  # and hold comments.
    """
    assert parse(text) == Program("p", ("n",), (), (), (For("i", Var("n"), (Barrier(),) * 2),))


def test_an_index_is_a_range_of_extent_one() -> None:
    text = "def p():\n    get(x[%s], b[0])"
    one = (Range(Var("i"), Const(1)),)
    assert parse(text % "i").body == (Transfer("get", "x", one, "b", Const(0)),)
    assert parse(text % "at(i, 1)") == parse(text % "i") == parse(text % "at(i, 1, 1)")


def test_elif_is_a_condition_in_the_other_branch() -> None:
    text = "def p():\n if a:\n  pass\n elif b:\n  barrier()"
    assert parse(text).body == (If(Var("a"), (), (If(Var("b"), (Barrier(),)),)),)


@pytest.mark.parametrize(
    ("text", "primitive"),
    [
        ("fill(value=-3)", Fill(-3.0)),
        ("fill(value=-0.5)", Fill(-0.5)),
        ("fill(value=1e3)", Fill(1000.0)),
        ('fill(value=float("inf"))', Fill(inf)),
        ("fill()", Fill()),
        ("gemm(vector='n', workspace='b')", MatrixProduct("n", workspace="b")),
        ("winograd_input(output_tile=2, points='0 1 -1')", WinogradInput(2, "0 1 -1")),
        ("winograd_input(output_tile=-9223372036854775808)", WinogradInput(-(2**63))),
    ],
)
def test_attributes_are_fields_of_the_primitive(text: str, primitive: Primitive) -> None:
    assert parse(f"def p():\n    {text}").body == (Call(primitive, ()),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fill(size=2)", "fill has no attribute 'size'; its attributes are value"),
        ("copy(size=2)", "copy has no attribute 'size'; it takes none"),
        ("fill(value='x')", "fill: value is 'x'; give a number"),
        ("gemm(vector='k')", "gemm: vector is 'k'; give 'm' or 'n'"),
        ("gemm(workspace=1)", "gemm: workspace is 1; give a string"),
        ("winograd_input()", "winograd_input lacks the attribute 'output_tile'"),
        ("winograd_input(output_tile=2.5)", "winograd_input: output_tile is 2.5; give an integer"),
    ],
)
def test_what_is_no_primitive(text: str, message: str) -> None:
    assert _refusal(f"def p():\n    {text}") == f"line 2: {message}"


def test_a_name_of_no_primitive_is_refused_with_those_that_there_are() -> None:
    """Families bring primitives of their own, which are known once they are imported."""
    known = ", ".join(primitive_names())
    assert known.startswith("fill, copy, scale_add, multiply_accumulate, requantise, repack")
    assert _refusal("def p():\n    sort()") == (
        f"line 2: there is no primitive 'sort'; the primitives are {known}"
    )


ADVICE = "use ASCII letters, digits and underscores, no leading digit and no Python keyword"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a program, found no text; start with 'def name():'"),
        ("barrier()", "line 1: expected 'def name(parameter, ...):', found 'barrier()'"),
        (
            "def p():\n    pass\n\nimport os",
            "line 4: expected the end of the text after one program, found 'import os'",
        ),
        ("def p()\n    pass", "line 1: not the text of a program: expected ':'"),
        (
            "def p():\n    for i in range(3):\n    barrier()",
            "line 3: not the text of a program: "
            "expected an indented block after 'for' statement on line 2",
        ),
        (
            "def p(n=1):\n    pass",
            "line 1: a program takes plain parameters: no decorators, types or defaults; "
            "write 'def name(parameter, ...):'",
        ),
        ("def p(é):\n    pass", f"line 1: parameter 'é' is not an identifier; {ADVICE}"),
        (
            "def p(a\x00):\n    pass",
            "not the text of a program: source code string cannot contain null bytes",
        ),
        (
            "def p(a\ud800):\n    pass",
            "not the text of a program: 'utf-8' codec can't encode character '\\ud800' in position "
            "7: surrogates not allowed",
        ),
    ],
)
def test_what_is_no_program(text: str, message: str) -> None:
    assert _refusal(text) == message


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("x: int", "expected 'name: tensor(...)' or 'name: buffer(...)', found 'x: int'"),
        (
            'x: tensor("f64", "input") = 3',
            "expected 'name: tensor(...)' or 'name: buffer(...)', "
            "found \"x: tensor('f64', 'input') = 3\"",
        ),
        (
            "x: tensor()",
            "expected tensor(dtype, kind, dimension=extent, ...), found 'tensor()'",
        ),
        (
            'x: tensor("f64", "inout", n=3)',
            'expected the kind "input" or "constant" or "output" or "updated" or "scratch", '
            "found \"'inout'\"",
        ),
        ('x: tensor("f64", "input", n=3, n=4)', "dimension 'n' is given twice"),
        ('x: tensor("f64", "input", n=1.5)', "'1.5' is not an integer expression"),
        ('x: tensor("f64", "input", **n)', "expected dimension=value, found 'n'"),
        ('x: tensor("f64", "input", é=3)', f"dimension 'é' is not an identifier; {ADVICE}"),
        (
            'b: buffer("f64", 8, slots=2)',
            "expected buffer(dtype, elements, copies=..., offset_bytes=..., space=...), "
            "found \"buffer('f64', 8, slots=2)\"",
        ),
        ('b: buffer("f64", 8, offset_bytes=n)', "expected an integer, found 'n'"),
        (
            'b: buffer("f64", 9223372036854775808)',
            "an integer does not fit 64 bits",
        ),
    ],
)
def test_declarations_that_are_none(declaration: str, message: str) -> None:
    assert _refusal(f"def p(n):\n    {declaration}") == f"line 2: {message}"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("x = 3", "expected a loop, a condition or a call, found 'x = 3'"),
        ("x", "expected a loop, a condition or a call, found 'x'"),
        ("os.system('x')", "expected a loop, a condition or a call, found \"os.system('x')\""),
        ("while n: pass", "expected a loop, a condition or a call, found 'while n:'"),
        (
            "x: tensor('f64', 'input')",
            "expected declarations before the first statement, found \"x: tensor('f64', 'input')\"",
        ),
        (
            "for i in range(1, 3): pass",
            "expected 'for name in range(extent):' without else, found 'for i in range(1, 3):'",
        ),
        (
            "for i in range(n, threads=1025): pass",
            "expected range(extent, threads=2 .. 1024), found 'range(n, threads=1025)'",
        ),
        ("if n or 1: pass", "'n or 1' is not an integer expression"),
        ("barrier(1)", "expected barrier(), found 'barrier(1)'"),
        ("wait(b)", "expected wait(buffer[slot]), found 'wait(b)'"),
        (
            "get(b[0])",
            "expected get(tensor[range, ...], buffer[slot]), found 'get(b[0])'",
        ),
        (
            "put(b[0], x)",
            "expected put(buffer[slot], tensor[range, ...]), found 'put(b[0], x)'",
        ),
        ("get(x[0:8], b[0])", "expected an index or at(start, extent, step), found '0:8'"),
        ("get(x[at(8)], b[0])", "expected an index or at(start, extent, step), found 'at(8)'"),
        ("get(x.y[0], b[0])", "expected tensor[range, ...], found 'x.y[0]'"),
        ("wait(b()[0])", "expected buffer[slot], found 'b()[0]'"),
        (
            "fill(x[0])",
            'expected tensor[range, ...]("roles") or '
            "buffer[slot](range, ..., shape=(...), roles=\"...\"), found 'x[0]'",
        ),
        (
            'fill(x[0](shape=4, roles="m"))',
            'expected tensor[range, ...]("roles") or '
            'buffer[slot](range, ..., shape=(...), roles="..."), '
            "found \"x[0](shape=4, roles='m')\"",
        ),
        ("fill(value=None)", "expected a string, an integer or a float, found 'None'"),
        ("fill(value=True)", "expected a string, an integer or a float, found 'True'"),
        ("fill(value=99999999999999999999)", "an integer does not fit 64 bits"),
        ("fill(value=1, value=2)", "attribute 'value' is given twice"),
        ("wait(b[ñ])", f"symbol 'ñ' is not an identifier; {ADVICE}"),
        ("wait(b[1 // 0])", "division by zero in 1 // 0"),
    ],
)
def test_statements_that_are_none(statement: str, message: str) -> None:
    assert _refusal(f"def p(n):\n    pass\n    barrier()\n    {statement}") == f"line 4: {message}"


def test_nesting_beyond_what_python_reads() -> None:
    assert _refusal("def p():\n    wait(b[" + "(" * 400 + "0" + ")" * 400 + "])") == (
        "line 2: not the text of a program: too many nested parentheses"
    )
    deep = "+".join("n" for _ in range(200_000))
    assert _refusal(f"def p():\n    wait(b[{deep}])").startswith("not the text of a program: ")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    _read_or_refused(text)


PIECES = (
    *("def ", "for ", "in ", "range(", "if ", "else:", "elif ", "pass", "get(", "at(", "tensor("),
    *("[", "]", "(", ")", ":", ",", "=", "\n", "    ", '"', "'", "*", "**", "-", "//", "0", "é"),
    *("float(", "shape=", "lambda: ", "yield ", "await ", "\\", "\x00", "{", "}", "f'", "1e999"),
    *("True", ":=", "@", "\t", "#", "...", "not ", "1j", "b''", "\ud800", "9" * 30),
)
_edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES) | st.just("")),
    min_size=1,
    max_size=4,
)


@given(st.lists(_edits, min_size=25, max_size=25))
def test_damaged_text_is_read_or_refused(damages: list[list[tuple[float, int, str]]]) -> None:
    """Thousands of damaged programs: pieces are cut out and put in at random places."""
    for edits in damages:
        text = EXPLICIT
        for place, cut, piece in edits:
            at = int(place * len(text))
            text = text[:at] + piece + text[at + cut :]
        _read_or_refused(text)


@given(programs(), _edits)
def test_damaged_random_programs_are_read_or_refused(
    program: Program, edits: list[tuple[float, int, str]]
) -> None:
    text = print_program(program)
    for place, cut, piece in edits:
        at = int(place * len(text))
        text = text[:at] + piece + text[at + cut :]
    _read_or_refused(text)


def _read_or_refused(text: str) -> None:
    """`parse` gives a program that prints and reads back equal, or ProgramError; nothing else."""
    try:
        program = parse(text)
    except ProgramError:
        return
    assert parse(print_program(program)) == program


def test_ends_of_dimensions_may_hold_zeros() -> None:
    text = "def p():\n    x: tensor('f64', 'input', shared, zeros(rows=(1, %s)), rows=8)"
    program = parse(text % "2")
    (x,) = program.tensors
    assert (x.zeros, x.zeros_of("rows"), x.zeros_of("cols")) == ((("rows", 1, 2),), (1, 2), (0, 0))
    assert parse(print_program(program)) == program
    assert _refusal(text % "") == (
        "line 2: expected tensor(dtype, kind, dimension=extent, ...), found "
        "\"tensor('f64', 'input', shared, zeros(rows=(1,)), rows=8)\""
    )


def test_a_tensor_may_be_shared_by_all_groups_and_by_another_tensor() -> None:
    text = (
        "def p():\n    x: tensor('f64', 'input', rows=8)\n    y: tensor('f64', 'input', %srows=8)"
    )
    marks = {"": ("", False), "shared, ": ("", True), "storage(x), shared, ": ("x", True)}
    for mark, expected in marks.items():
        program = parse(text % mark)
        assert (program.tensors[1].storage, program.tensors[1].shared) == expected
        assert parse(print_program(program)) == program
    assert _refusal(text % "shared, storage(x), ") == (
        "line 3: expected tensor(dtype, kind, dimension=extent, ...), found "
        "\"tensor('f64', 'input', shared, storage(x), rows=8)\""
    )
