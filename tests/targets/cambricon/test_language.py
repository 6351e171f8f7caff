"""Declarations, macros of one kind, blocks and fusion as text; and what is refused, in words."""

from __future__ import annotations

import pytest

from support.cambricon import TABLE
from tilewright.asm import SourceErrors, assemble, link
from tilewright.targets.cambricon.dla.declarations import Data, declared_in

DATA = """
.static_rw
@neuron x, 1, 1, 1, 64
@neuron y, 1, 1, 1, 32
.static_ro
@synapse w, 32, 1, 1, 64
@neuron fixed, 1, 1, 1, 32
"""


def code(text: str) -> list[str]:
    """The basic statements of a source, linked."""
    image = link([assemble(text, TABLE)], TABLE)
    return [placed.instruction.text() for placed in image.instructions]


def refusal(text: str) -> list[str]:
    """Each error of a source: place, message, fix."""
    with pytest.raises(SourceErrors) as error:
        assemble(text, TABLE, filename="p.dla")
    return [
        f"{d.line.number}:{d.span.column} {d.message}" + (f"; {d.fix}" if d.fix else "")
        for d in error.value.diagnostics
    ]


def test_a_declaration_reserves_memory_and_is_kept_for_the_runtime() -> None:
    found = assemble(
        ".static_rw\n@neuron x, 1, 2, 3, 4, 1, 2,\n  3, 2 ; in two lines\n@synapse w, 2, 1, 1, 4",
        TABLE,
    )
    assert found.section(".static_rw").size_bytes == 64 + 2 * 8
    assert declared_in(found) == {
        "x": Data("x", "neuron", (1, 2, 3, 4), (1, 2, 3, 2), False),
        "w": Data("w", "synapse", (2, 1, 1, 4), (2, 1, 1, 4), False),
    }


def test_a_parameter_is_a_number() -> None:
    text = "smove $1, #stride + 1\n.static_ro\n@parameter stride, 2 * 3"
    assert code(text) == ["smove $1, #7"]


MACROS = """
C -\tMacro scale out, size
again:
  vav \\out, \\size, \\out, \\out
  ssub $3, #1
  cb $3, again
mend
IO-Macro fetch place, size
  vload \\place, \\size, #x
mend
Block both size
  @fetch $1, \\size
  @scale $1, \\size
mend
.code
@both $2
@scale $1, $2
"""


def test_macros_and_blocks_of_ones_own() -> None:
    loop = ["vav $1, $2, $1, $1", "ssub $3, $3, #1", "cb $3, -3"]
    assert code(MACROS + DATA) == ["vloada $1, $2, #0", *loop, *loop]


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (
            "C-Macro f a\nvav \\a, $1, $2, $3\nvload $1, $2, #0\nmend",
            [
                "3:1 vload moves data, but C-Macro 'f', which begins at p.dla:1, computes; write "
                "it in a macro that begins with IO-Macro"
            ],
        ),
        (
            "IO-Macro f\nmmv $1, $2, $3, $4, $5\nmend",
            [
                "2:1 mmv computes, but IO-Macro 'f', which begins at p.dla:1, moves data; write it "
                "in a macro that begins with C-Macro"
            ],
        ),
        ("C-Macro f a\nvexp \\a, $1, $2", [
            "1:1 C-Macro without mend; write mend after its last line"
        ]),
        ("C-Macro f a\n  vexp \\a, $1, $2\nendm\n.code\n@f $1\nvexp $1", [
            "1:1 C-Macro without mend; write mend in place of 'endm' in line 3",
            "6:1 vexp takes 3 operands (out, size, source), 1 given",
        ]),
        ("Block f\nend:\n  vexp $1, $2, $3\nC-Macro g\nmend\n.code\n@g\n@f", [
            "1:1 Block without mend; write mend before line 4"
        ]),
        ("mend", ["1:1 mend without a macro; write C-Macro, IO-Macro or Block before"]),
        ("Block f\n@f\nmend\n.code\n@f", ["2:2 Block 'f' calls itself; write a loop with cb"]),
        ("C-Macro f a\nmend\n@f 1, 2", ["3:2 C-Macro 'f' takes 1 argument (a), 2 given"]),
        ("@block_fc_pf y, x, w", [
            "1:2 no block, macro or declaration '@block_fc_pf'; did you mean 'block_fc_fp'?"
        ]),
        ("@fc y, x, w", [
            "1:2 no block, macro or declaration '@fc'; did you mean 'fc_fp'?"
        ]),
        (".code\n@fc_fp y, x", ["2:2 @fc_fp takes 3 to 4 arguments (out, in, w[, b]), 2 given"]),
        (f".code\n@fc_fp y, z, w{DATA}", ["2:11 'z' is not declared; declare @neuron z, ..."]),
        (f".code\n@fc_fp fixed, x, w{DATA}", [
            "2:8 @fc_fp writes fixed, which is declared in .static_ro; declare fixed in .static_rw"
        ]),
        (f".code\n@fc_fp y, w, x{DATA}", [
            "2:11 @fc_fp: argument 2 must be a neuron, not the synapse w"
        ]),
        (".static_rw\n@neuron x, 1, 1, 1, 4, 1, 1, 1, 8", [
            "2:33 x: the segment size CS = 8 is outside 1 .. C = 4; write a segment size of at "
            "most 4"
        ]),
        (".static_rw\n@neuron x, 1, 2, 3", [
            "2:18 @neuron x takes 4 extents (B, H, W, C) and 4 segment sizes, 3 numbers given; "
            "give 8 numbers, or 4 for one segment"
        ]),
        (".static_rw\n@neuron x, 1, 1, 1, 4,", [
            "2:22 the declaration ends with a comma; remove it"
        ]),
        (".static_rw\n@neuron x, 1, 1, 1, 4\n@neuron x, 1, 1, 1, 4", [
            "3:9 'x' is declared twice; choose another name"
        ]),
        (f".code\n@fc_fp y, z, w\n@relu_fp z, z{DATA}@neuron z 1, 1, 1, 4", [
            "10:9 @neuron z has no comma behind its name; write @neuron z, 1, 1, 1, 4"
        ]),
        (f".code\nvstore $1, $2, #fixed\nsstore $1, $2, #fixed{DATA}", [
            "2:16 vstore writes to fixed, which is in .static_ro; declare fixed in .static_rw",
            "3:16 sstore writes to fixed, which is in .static_ro; declare fixed in .static_rw",
        ]),
        (f".code\n@fuse\n@fc_fp y, x, w\nsmove $1, #1\n@relu_fp y, y\n@endfuse{DATA}", [
            "4:1 only blocks stand between @fuse at p.dla:2 and @endfuse; write @endfuse behind "
            "the blocks"
        ]),
        ("@neuron x, 1, 1, 1, 4", [
            "1:2 @neuron in section .code; write .static_rw or .static_ro before it"
        ]),
        (f".code\n@fuse\n@fc_fp y, x, w{DATA}", [
            "4:1 only blocks stand between @fuse at p.dla:2 and @endfuse; write @endfuse behind "
            "the blocks"
        ]),
        (f"{DATA}.code\n@fuse\n@fc_fp y, x, w", [
            "10:1 @fuse at p.dla:9 without @endfuse; write @endfuse behind its blocks"
        ]),
        ("C-Macro relu_fp a\nmend", ["1:1 'relu_fp' is built in; choose another name"]),
        ("C-Macro neuron a\nmend", ["1:1 'neuron' is built in; choose another name"]),
        ("C-Macro f a\nmend\nC-Macro f b\nmend", ["3:1 'f' is already defined at p.dla:1"]),
        (".static_rw\n@parameter p, 1, 2", ["2:12 @parameter p takes one number"]),
        (".code\n@endfuse", ["2:2 @endfuse without @fuse; write @fuse before its blocks"]),
        (".code\n@fuse\n@endfuse", ["3:2 nothing stands between @fuse and @endfuse"]),
        (f".code\n@fuse\n@fuse\n@fc_fp y, x, w\n@endfuse{DATA}", [
            "3:2 @fuse inside @fuse; write @endfuse before it"
        ]),
        (f".code\n@fc_fp y, x, w, x, x{DATA}", [
            "2:2 @fc_fp takes 3 to 4 arguments (out, in, w[, b]), 5 given"
        ]),
        ("C-Macro f a, b\nmend\n@f 1", ["3:2 C-Macro 'f' takes 2 arguments (a, b), 1 given"]),
        (f".code\n@fuse\n@fc_fp y, x, w\n@relu_fp z, y\n@endfuse\n@tanh_fp z, y{DATA}"
         ".static_rw\n@neuron z, 1, 1, 1, 32", [
            "4:13 @relu_fp: y is not stored, but taken or written by @tanh_fp at p.dla:6; "
            "leave @relu_fp out of the fusion"
        ]),
        (f".code\n@fuse\n@relu_fp y, y\n@fc_fp y, x, w\n@endfuse{DATA}", [
            "4:2 @fc_fp cannot be fused behind another block; fuse @relu_fp, @sigmoid_fp, "
            "@tanh_fp, @maxpool_fp or @avgpool_fp behind a block"
        ]),
        ("MEND", ["1:1 mend without a macro; write C-Macro, IO-Macro or Block before"]),
        (f".code\n@fuse\n@fc_fp y, x, w\nsmove $1, #1\nsmove $2, #1\n@endfuse{DATA}", [
            "4:1 only blocks stand between @fuse at p.dla:2 and @endfuse; write @endfuse behind "
            "the blocks"
        ]),
        (f".code\n@fuse\n@fc_fp y, z, w\n@relu_fp y, y\n@endfuse{DATA}", [
            "3:11 'z' is not declared; declare @neuron z, ..."
        ]),
        (f".code\n@fuse\n@fc_fp y, x, w\n@relu_fp y, fixed\n@endfuse{DATA}", [
            "4:13 @relu_fp: it has to take what the block before writes, not fixed"
        ]),
        (f".code\n@fc_fp z, q, w{DATA}@neuron q, 1, 1, 1, 64\n@neuron q 1, 1, 1, 64", [
            "2:8 'z' is not declared; declare @neuron z, ...",
            "10:9 @neuron q has no comma behind its name; write @neuron q, 1, 1, 1, 64",
        ]),
        (f".code\n@maxpool_fp y, z, p, p, #1, #1{DATA}@parameter p, 1\n@parameter p 1", [
            "2:16 'z' is not declared; declare @neuron z, ...",
            "10:12 @parameter p has no comma behind its name; write @parameter p, 1",
        ]),
        (f".code\n@relu_fp y{DATA}", ["2:2 @relu_fp takes 2 arguments (out, in), 1 given"]),
        (f".code\n@fc_fp y, #z, w{DATA}", [
            "2:12 undefined symbol 'z'; define it above this line"
        ]),
        (f".code\n@maxpool_fp y, x, #2, # 2 * (q), #1, #1{DATA}", [
            "2:30 undefined symbol 'q'; define it above this line"
        ]),
        (".static_rw\n@neuron x, 1, 1, 1, 4,\n@neuron y, 1, 1, 1, 4\n.code\n@relu_fp y, y", [
            "2:22 the declaration ends with a comma; remove it"
        ]),
        (".static_rw\n  @neuron", ["2:4 @neuron needs a name; write @neuron name, ..."]),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, errors: list[str]) -> None:
    assert refusal(text) == errors


def test_comments_stand_between_fused_blocks_and_results_in_place_are_taken_again() -> None:
    calls = "@fuse ; one\n\n@fc_fp y, x, w\n  ; two\n@relu_fp y, y // three\n@endfuse\n"
    fused = code(f".code\n{calls}@tanh_fp z, y{DATA}.static_rw\n@neuron z, 1, 1, 1, 32")
    stores = [line for line in fused if line.startswith("vstore")]
    assert len(stores) == 2


SEGMENTED = """
.code
@fc_fp y, x, w
.static_rw
@neuron x, 1, 1, 1, 64, 1, 1, 1, 16
@neuron y, 1, 1, 1, 32, 1, 1, 1, 16
.static_ro
@synapse w, 32, 1, 1, 64, 16, 1, 1, 16
"""


def test_the_order_of_loads_is_a_number_that_ends_at_the_last_one() -> None:
    order = {n: tuple(code(f"{SEGMENTED}@parameter prefetch, {n}\n")) for n in range(-2, 5)}
    assert order[-2] == order[-1] == order[0]
    assert order[2] == order[3] == order[4]
    assert len({order[0], order[1], order[2]}) == 3
    assert order[1] == tuple(code(SEGMENTED))


def test_what_the_paper_prints_with_errors_is_refused_with_a_way_out() -> None:
    """Fig. 2 as scanned: a letter for the mark of declarations, a comma too many."""
    text = ".static_rw\nOneuron a, 1, 1, 1, 256\n@synapse w, 128, 1, 1, 256,\n  128, 1, 1, 128,"
    assert refusal(text) == [
        "2:1 unknown instruction 'oneuron' in cambricon; did you mean '@neuron'?",
        "4:17 the declaration ends with a comma; remove it",
    ]


def test_a_scratchpad_that_is_too_small_shows_its_map_and_what_fits() -> None:
    text = """
.code
@fc_fp y, x, w
.static_rw
@neuron x, 1, 1, 1, 1024
@neuron y, 1, 1, 1, 512
.static_ro
@synapse w, 512, 1, 1, 1024
"""
    assert refusal(text) == [
        "3:1 the matrix scratchpad has 393216 elements, the block needs 1048576: w 0 0 .. "
        "524287, w 1 524288 .. 1048575; segments of 512 outputs and 256 inputs fit"
    ]


def test_an_error_in_a_macro_shows_where_it_was_called() -> None:
    with pytest.raises(SourceErrors) as error:
        assemble("C-Macro f a\n  vav \\a, $1, $2\nmend\n.code\n@f $9", TABLE, filename="p.dla")
    assert str(error.value) == (
        "p.dla:2:3: error A301: vav takes 4 operands (out, size, in0, in1), 3 given\n"
        "      vav $9, $1, $2\n"
        "      ^~~\n"
        "  in C-Macro 'f' at p.dla:5"
    )


def test_data_and_blocks_of_too_many_segments_are_refused_at_once() -> None:
    whole, many = "1, 1, 1, 65537", "1, 1, 1, 65537, 1, 1, 1, 1"
    assert refusal(f".static_rw\n@neuron x, {whole}\n@neuron z, {many}") == [
        "3:12 z has 65537 segments, the limit is 65536; give larger segments"
    ]
    data = "@neuron x, 300, 1, 1, 90, 1, 1, 1, 1\n@neuron y, 300, 1, 1, 3, 1, 1, 1, 1\n"
    text = f".code\n@fc_fp y, x, w\n.static_rw\n{data}@synapse w, 3, 1, 1, 90, 1, 1, 1, 1"
    assert refusal(text) == ["2:2 @fc_fp: 81000 tiles, the limit is 65536; give larger segments"]
