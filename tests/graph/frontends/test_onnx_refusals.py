"""ONNX models that cannot be read: each refusal is one message, tested whole."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto

from support.onnx_models import IMAGE, floats, ints, model, node, refusal, saved
from tilewright.common.errors import InternalError, ShapeError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.operators import OPERATORS

WEIGHT = {"w": floats(6, 4, 3, 3)}
LISTED = "; docs/reference/onnx.md lists what is read"
CONV = node("Conv", "xw", "y", name="c")


def cut(*numbers):
    """Start, end, axis and step of a slice."""
    return {name: ints(number) for name, number in zip("beap", numbers, strict=True)}


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            model([node("Relu", "x", "y")], {"x": ("N", 4)}),
            "input 'x' leaves dimension 0 'N' open; give --batch",
        ),
        (
            model([node("Relu", "x", "y")], {"x": (1, None)}),
            "input 'x' leaves dimension 1 open; give --shape x=1x?",
        ),
        (
            model([node("Relu", "x", "y")], {"x": (1, 0)}),
            "input 'x' has the extent 0 at dimension 1",
        ),
        (
            model([node("Relu", "q", "y", name="act")], IMAGE),
            "node 'act' (Relu) reads 'q', which nothing before it produces",
        ),
        (
            model([node("Relu", "x", "y")], IMAGE, outputs=("z",)),
            "the model's output list reads 'z', which nothing before it produces",
        ),
        (
            model([node("Relu", "x", "y")], IMAGE, outputs=()),
            "the model has no output; name what it computes as graph outputs",
        ),
        (
            model([node("Relu", "x", "y")], IMAGE, {"none": floats(2, 0)}, outputs=("none",)),
            "output 'none' is 2x0: it has no element",
        ),
        (
            model(
                [node("ConvTranspose", "xw", "y", name="t")],
                {"x": (1, 2, 5)},
                {"w": floats(2, 3, 3, 3)},
            ),
            "node 't' (ConvTranspose): weights of (2, 3, 3, 3) do not fit images of (1, 2, 5)",
        ),
        (
            model([node("BitwiseNot", "x", "y", name="n")], IMAGE, opset=18),
            "node 'n' (BitwiseNot) takes 'x', which holds f32; it takes "
            "i8, u8, i16, u16, i32, u32, i64, u64",
        ),
        (
            model([node("Expand", "xs", "y")], {"x": (2, 3)}, {"s": ints(2**62, 2**62, 2, 3)}),
            "node 'y' (Expand): 2x3 and 4611686018427387904x4611686018427387904x2x3 cannot be "
            "broadcast together",
        ),
        (
            model([node("LpPool", "x", "y", name="l", kernel_shape=[2, 2], p=0)], IMAGE, opset=18),
            "node 'l' (LpPool): p = 0, and a norm has at least 1",
        ),
        (
            model([node("GlobalLpPool", "x", "y", name="l", p=-1)], IMAGE),
            "node 'l' (GlobalLpPool): p = -1, and a norm has at least 1",
        ),
        (
            model([node("EyeLike", "x", "y", name="e")], {"x": (4, 2**30)}),
            "node 'e' (EyeLike): a matrix of 4x1073741824, at most 268435456 elements",
        ),
        (
            model([node("Relu", "x", "y")], {"x": (1, 2**33)}),
            "the tensor 'x', 1x8589934592: a dimension has less than 2,147,483,648 elements",
        ),
        (
            model([node("Pad", "xp", "y", name="p")], {"x": (3,)}, {"p": ints(2**31, 0)}),
            "node 'p' (Pad): the tensor 'y', 2147483651: a dimension has less than 2,147,483,648 "
            "elements",
        ),
        (
            model(
                [node("Range", "abc", "y", name="r")],
                {},
                {"a": np.array(0), "b": np.array(2**60), "c": np.array(1)},
            ),
            "node 'r' (Range): from 0 to 1152921504606846976 by 1 are more than 268435456 elements",
        ),
        (
            model(
                [node("Range", "abc", "y", name="r")],
                {},
                {"a": np.array(0), "b": np.array(5), "c": np.array(0)},
            ),
            "node 'r' (Range): steps of 0 reach no limit",
        ),
        (
            model(
                [node("Concat", "ab", "s", name="c", axis=2**62), node("Reshape", "xs", "y")],
                IMAGE,
                {"a": ints(8), "b": ints(8)},
            ),
            "node 'c' (Concat): axis 4611686018427387904 is outside -1..0",
        ),
        (
            model(
                [node("OneHot", "idv", "y", name="o")],
                {"i": (3,)},
                {"d": np.array([np.inf], np.float32), "v": ints(0, 1)},
                opset=11,
            ),
            "node 'o' (OneHot): depth inf and (2,) values, expected two of them",
        ),
        (
            model(
                [node("OneHot", "ndd", "y", name="o")],
                {"i": (3,)},
                {"d": np.zeros(0, np.float32)},
                opset=11,
            ),
            "node 'o' (OneHot): its operands do not fit: 'n' is produced by nothing before it",
        ),
        (
            model(
                [node("DFT", "xn", "y", name="d")], {"x": (1, 8, 1)}, {"n": ints(2**62)}, opset=20
            ),
            "node 'd' (DFT): takes 4611686018427387904 x 8 roots of unity, at most 33554432",
        ),
        (
            model(
                [node("Dropout", "x", "ym", name="d")],
                {"x": (2**30, 2**30)},
                outputs=("y", "m"),
                opset=13,
            ),
            "node 'd' (Dropout): its result does not fit memory",
        ),
        (
            model([CONV], IMAGE, {"w": floats(6, 3, 3, 3)}),
            "node c: conv2d takes 6x4x3x3 f32, but 'w' is 6x3x3x3 f32",
        ),
        (
            model([CONV], IMAGE, {"w": floats(6, 4, 3)}),
            "node 'c' (Conv): weights of 3 dimensions",
        ),
        (
            model([CONV], {"x": (2, 4, 9)}, {"w": floats(6, 5, 3)}),
            "node 'c' (Conv): weights of (6, 5, 3) do not fit images of (2, 4, 9)",
        ),
        (
            model([CONV], IMAGE, {"w": floats(6, 4, 11, 3)}),
            "node 'c' (Conv): conv2d: kernel height 11 is larger than the padded input height "
            "9 = 9 + 0 + 0",
        ),
        (
            model([node("Conv", "xw", "y", name="c", strides=[1])], IMAGE, WEIGHT),
            "node 'c' (Conv): strides must be 2 integers, found (1,)",
        ),
        (
            model([node("Conv", "xw", "y", name="c", group=1.5)], IMAGE, WEIGHT),
            "node 'c' (Conv): attribute group must be an integer, found 1.5" + LISTED,
        ),
        (
            model([node("Conv", "xw", "y", name="c", auto_pad="AUTO")], IMAGE, WEIGHT),
            "node 'c' (Conv): auto_pad = 'AUTO' is not supported, only 'NOTSET', 'VALID', "
            "'SAME_UPPER', 'SAME_LOWER'" + LISTED,
        ),
        (
            model(
                [node("Conv", "xw", "y", name="c", auto_pad="SAME_UPPER", strides=[9, 1])],
                IMAGE,
                WEIGHT,
            ),
            "node 'c' (Conv): auto_pad with windows of 3 pixels and a stride of 9 would leave out "
            "6 of 9 pixels; export the model with pads",
        ),
        (
            model([node("Conv", ["x"], "y", name="c")], IMAGE),
            "node 'c' (Conv): input 1 is missing" + LISTED,
        ),
        (
            model([node("Gemm", "xw", "y", name="fc")], {"x": (3, 5)}, {"w": floats(4, 5)}),
            "node fc: gemm takes 5x5 f32, but 'w' is 4x5 f32",
        ),
        (
            model([node("MatMul", "xw", "y", name="fc")], {"x": (3, 5)}, {"w": floats(2, 6, 4)}),
            "node 'fc' (MatMul): 'mk,akn->amn': 'k' has 6 steps in 'akn' and 5 before",
        ),
        (
            model([node("Reshape", "xs", "y", name="r")], IMAGE, {"s": ints(7, -1)}),
            "node 'r' (Reshape): reshape: 2x4x9x8 has 576 elements, 7x82 has 574",
        ),
        (
            model([node("Reshape", "xs", "y", name="r")], {**IMAGE, "s": (2,)}),
            "node 'r' (Reshape): input 1 ('s') must be a constant" + LISTED,
        ),
        (
            model([node("Reshape", "xs", "y", name="r")], IMAGE, {"s": ints(-1, -1)}),
            "node 'r' (Reshape): (-1, -1) is not a shape",
        ),
        (
            model(
                [node("BatchNormalization", "xaaaa", "y", name="n", training_mode=1)],
                IMAGE,
                {"a": floats(4)},
                opset=14,
            ),
            "node 'n' (BatchNormalization): training_mode = 1 is not supported, only 0" + LISTED,
        ),
        (
            model([node("MaxPool", "x", "y", name="p")], IMAGE),
            "node 'p' (MaxPool): attribute kernel_shape is missing" + LISTED,
        ),
        (
            model([node("ReduceMean", "x", "y", name="m", axes=[4])], IMAGE),
            "node 'm' (ReduceMean): axis 4 is outside -4..3",
        ),
        (
            model([node("Resize", ["x", "", "s"], ["y"], name="r")], IMAGE, {"s": floats(1)}),
            "node 'r' (Resize): 1 scales or sizes do not fit 4 axes",
        ),
        (
            model(
                [node("Resize", ["x", "", "", "n"], ["y"], name="r")],
                IMAGE,
                {"n": ints(1, 4, 9, 9 * 2**30)},
            ),
            "node 'r' (Resize): axis 3 becomes 9663676416 elements, at most 262144 are supported",
        ),
        *(
            (
                model(
                    [node("Resize", ["x", "", "s"], ["y"], name="r")],
                    IMAGE,
                    {"s": np.array([1, 1, 2, scale], "float32")},
                ),
                "node 'r' (Resize): scales must be finite",
            )
            for scale in (np.nan, np.inf)
        ),
        (
            model([node("Resize", "xs", "y", name="r")], IMAGE, {"s": floats(4)}, opset=9),
            "node 'r' (Resize): is read from operator set 10 on, the model is written in 9"
            + LISTED,
        ),
        (
            model(
                [node("Resize", ["x", "", "", "n"], ["y"], name="r", mode="tent")],
                IMAGE,
                {"n": ints(1, 4, 8, 8)},
            ),
            "node 'r' (Resize): mode = 'tent' is not supported, only 'nearest', 'linear', 'cubic'"
            + LISTED,
        ),
        (
            model([node("Transpose", "x", "y", name="t", perm=[0, 1, 1, 2])], IMAGE),
            "node 't' (Transpose): perm = (0, 1, 1, 2) does not order 4 dimensions",
        ),
        (
            model([node("Slice", "xbeap", "y", name="s")], IMAGE, cut(5, 0, 1, 0)),
            "node 's' (Slice): a step of 0 along axis 1",
        ),
        (
            model([node("Slice", "xbeap", "y", name="s")], IMAGE, cut(5, 2, 1, 1)),
            "node 's' (Slice): takes no element along axis 1",
        ),
        (
            model([node("Pad", "xp", "y", name="p")], IMAGE, {"p": ints(0, 0, 1)}),
            "node 'p' (Pad): 3 pads do not fit 4 dimensions",
        ),
        (
            model([node("Add", "xw", "y", name="a")], IMAGE, {"w": ints(1)}),
            "node 'a' (Add) takes 'w', which holds int64; it takes f32",
        ),
        (
            model([node("Softmax", "x", "y", name="s", axis=4)], IMAGE),
            "node 's' (Softmax): axis 4 is outside -4..3",
        ),
        (
            model([node("Relu", "x", "y")], {"x": (-1, 4)}),
            "input 'x' leaves dimension 0 open; give --batch",
        ),
        (
            model([node("Relu", "x", "y")], {"x": ("N", 3, "H", None)}),
            "input 'x' leaves dimension 0 'N' open; give --shape x=?x3x?x?",
        ),
        (
            model([node("Relu", "x", "y")], {"x": None}),
            "input 'x' leaves its shape open; give --shape x=EXTENTS, one for each dimension, with "
            "an x between them",
        ),
        (
            model([node("Add", "xw", "y", name="a")], IMAGE, {"w": floats(8)}, opset=6),
            "node 'a' (Add): 2x4x9x8 and 8 differ, and broadcast = 0",
        ),
        (
            model(
                [node("Add", "xw", "y", name="a", broadcast=1, axis=0)],
                IMAGE,
                {"w": floats(8)},
                opset=6,
            ),
            "node 'a' (Add): 8 does not lie along the axes of 2x4x9x8 from axis 0 on",
        ),
        (
            model([node("Add", "xw", "y", name="a", axis=1)], IMAGE, {"w": floats(4)}),
            "node 'a' (Add): attribute axis is not supported in operator set 13" + LISTED,
        ),
        (
            model(
                [node("SpaceToDepth", "x", "y", name="s", blocksize=2, mode="CRD")],
                {"x": (1, 3, 4, 6)},
                opset=28,
            ),
            "node 's' (SpaceToDepth): mode = 'CRD' is not supported, only 'DCR'" + LISTED,
        ),
        (
            model(
                [node("Gemm", "xwb", "y", name="g")],
                {"x": (3, 5)},
                {"w": floats(5, 4), "b": floats(2, 3, 4)},
            ),
            "node 'g' (Gemm): C is 2x3x4, which cannot be added to 3x4",
        ),
        (
            model([node("Conv", "xwb", "y", name="c")], IMAGE, {**WEIGHT, "b": floats(6, 1)}),
            "node 'c' (Conv): 6 biases are needed, found 6x1",
        ),
        (
            model([node("Max", "xw", "y", name="m")], IMAGE, {"w": floats(8)}, opset=6),
            "node 'm' (Max): its operands differ in shape: [(2, 4, 9, 8), (8,)]",
        ),
        (
            model([node("Relu", "x", "y"), node("Relu", "x", "y")], IMAGE),
            "the tensor 'y' is defined a second time",
        ),
    ],
)
def test_a_model_that_cannot_be_imported(tmp_path, proto, message):
    path = saved(tmp_path, proto)
    assert refusal(path) == f"{path}: {message}"


def test_an_unknown_operator(tmp_path):
    name = "evil\n\x1b[31m" + "x" * 100
    path = saved(tmp_path, model([node("Det", "x", "y", name=name)], IMAGE))
    shown = "'evil\\n\\x1b[31m" + "x" * 22 + "..."
    assert refusal(path) == (f"{path}: node {shown} (Det): is not an operator that is read{LISTED}")


def test_an_operator_of_another_domain(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y", name="r", domain="my.own")], IMAGE))
    assert refusal(path) == (
        f"{path}: node 'r' (Relu): is an operator of the domain 'my.own'{LISTED}"
    )


def test_all_that_a_model_lacks_stands_in_one_list(tmp_path):
    """Nodes are named for each reason, a node with two reasons twice; one count of them all."""
    nodes = [
        node("Det", "x", "a"),
        *(node("NonZero", "x", f"r{i}", name=f"up{i}") for i in range(7)),
        node("Conv", "xw", "c", name="c1", strides=1.5),
        node("Conv", "xw", "d", name="c2", strides=1.5, group=1.5),
        node("MaxPool", "x", ["p", "i"], name="pool", kernel_shape=[2, 2]),
        node("Relu", "i", "y", name="r", alpha=1.0),
    ]
    path = saved(tmp_path, model(nodes, IMAGE, WEIGHT))
    assert refusal(path) == (
        f"{path}: 12 nodes cannot be read:\n"
        "  Conv: attribute group must be an integer, found 1.5 (node 'c2')\n"
        "  Conv: attribute strides must be integers, found 1.5 (nodes 'c1', 'c2')\n"
        "  Det: is not an operator that is read (node 'a')\n"
        "  MaxPool: output 1 is used, only output 0 is computed (node 'pool')\n"
        "  NonZero: gives as many results as its data say, and is read where its operands are "
        "constants: bind them (nodes 'up0', 'up1', 'up2', 'up3', 'up4' and 2 more)\n"
        f"  Relu: attribute alpha is not supported in operator set 13 (node 'r'){LISTED}"
    )


@pytest.mark.parametrize(("nodes_of_a_reason", "reasons"), [(5, 40), (6, 41), (1, 42)])
def test_a_long_list_ends_with_how_much_is_left_out(tmp_path, nodes_of_a_reason, reasons):
    """Five nodes of a reason are named, and forty reasons."""
    each = range(nodes_of_a_reason)
    nodes = [
        node("Relu", "x", f"y{reason}_{i}", name=f"n{i}", **{f"a{reason:02}": 1.0})
        for reason in range(reasons)
        for i in each
    ]
    shown = ", ".join(f"'n{i}'" for i in [*each][:5])
    more = f" and {nodes_of_a_reason - 5} more" if nodes_of_a_reason > 5 else ""
    names = f"node{'s' * (nodes_of_a_reason > 1)} {shown}{more}"
    lines = [
        f"  Relu: attribute a{reason:02} is not supported in operator set 13 ({names})\n"
        for reason in range(min(reasons, 40))
    ]
    left = f"  and {reasons - 40} more\n" if reasons > 40 else ""
    path = saved(tmp_path, model(nodes, IMAGE, outputs=("y0_0",)))
    assert refusal(path) == (
        f"{path}: {len(nodes)} nodes cannot be read:\n{''.join([*lines, left])[:-1]}{LISTED}"
    )


@pytest.mark.parametrize("opset", [0, -1, 29, 2**40])
def test_an_operator_set_that_is_not_known(tmp_path, opset):
    path = saved(tmp_path, model([node("Relu", "x", "y")], IMAGE, opset=opset))
    assert refusal(path) == (
        f"{path}: the model is written in operator set {opset}; supported are 1 to 28: export it "
        "again"
    )


def test_text_sequences_and_counts_by_data_are_refused_in_one_list(tmp_path):
    """All nodes at once, each with what there is instead."""
    nodes = [
        node("NonZero", "x", "a", name="places"),
        node("NonMaxSuppression", ["x", "x"], ["b"], name="boxes"),
        node("SequenceConstruct", "xx", "q", name="pair"),
        node("SequenceAt", ["q", "zero"], ["c"], name="first"),
        node("StringConcat", "xx", "d", name="text"),
    ]
    path = saved(tmp_path, model(nodes, IMAGE, {"zero": ints(0)}, opset=20, outputs=("a",)))
    assert refusal(path) == (
        f"{path}: 5 nodes cannot be read:\n"
        "  NonMaxSuppression: gives as many results as its data say: end the model before it "
        "(node 'boxes')\n"
        "  NonZero: gives as many results as its data say, and is read where its operands are "
        "constants: bind them (node 'places')\n"
        "  SequenceAt: works on sequences: tensors here hold numbers (node 'first')\n"
        "  SequenceConstruct: works on sequences: tensors here hold numbers (node 'pair')\n"
        f"  StringConcat: works on texts: tensors here hold numbers (node 'text'){LISTED}"
    )


def test_all_nodes_that_cannot_be_translated_stand_in_one_list(tmp_path):
    """Readers of a refused node are left out: they have no fault of their own."""
    nodes = [
        node("Gather", "xi", "a", name="first"),
        node("Softmax", "a", "b", name="reader", axis=9),
        node("GatherND", "xj", "c", name="second"),
        node("Softmax", "x", "y", name="third", axis=4),
    ]
    places = {"i": ints(0, 2), "j": np.array([[0, 3], [1, 9]])}
    path = saved(tmp_path, model(nodes, IMAGE, places, outputs=("b", "c", "y")))
    assert refusal(path) == (
        f"{path}: 3 nodes cannot be read:\n"
        "  node 'first' (Gather): the index 2 is outside -2..1\n"
        "  node 'second' (GatherND): the index 9 is outside -4..3\n"
        "  node 'third' (Softmax): axis 4 is outside -4..3"
    )


def test_a_fault_of_ours_is_called_so_and_not_a_refusal(tmp_path, monkeypatch):
    """Operands that the standard forbids are refused; here a translator breaks at allowed ones."""

    def broken(at):
        raise TypeError("unsupported operand")

    monkeypatch.setitem(OPERATORS, "Concat", replace(OPERATORS["Concat"], translate=broken))
    path = saved(tmp_path, model([node("Concat", "xx", "y", name="c", axis=1)], IMAGE))
    with pytest.raises(InternalError) as fault:
        load_onnx(path)
    assert str(fault.value) == (
        f"{path}: node 'c' (Concat): a fault of tilewright's, not of the model: TypeError: "
        "unsupported operand; report it with the model"
    )
    wrong = saved(tmp_path, model([node("Concat", "xz", "y", name="c", axis=1)],
                                  {**IMAGE, "z": (3, 4)}))  # fmt: skip
    assert refusal(wrong) == (
        f"{wrong}: node 'c' (Concat): its operands do not fit: All inputs to Concat must have same "
        "rank. Input 1 has rank 2 != 4"
    )


def test_an_index_outside_that_is_found_at_run_time_is_named(tmp_path):
    gather = node("Gather", "xi", "y", name="g")
    proto = model([gather], {"x": (5, 2), "i": (3,)}, integers="i")
    network = load_onnx(saved(tmp_path, proto))
    with pytest.raises(ShapeError) as outside:
        network.evaluate({"x": np.zeros((5, 2), np.float32), "i": np.array([0, 7, 1])})
    assert str(outside.value) == "node g: index 7 is outside 0..4, dimension 0 of 5x2"


def test_a_shape_that_does_not_fit(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y")], IMAGE))
    assert refusal(path, shapes={"x": (2, 3)}) == (
        f"{path}: input 'x' has 4 dimensions, its given shape 2"
    )
    assert refusal(path, shapes={"x": (2, 3, 0, 4)}) == (
        f"{path}: input 'x' has the extent 0 at dimension 2"
    )
    assert refusal(path, shapes={"z": (2, 3)}) == (
        f"{path}: a shape is given for 'z', which is not an input; inputs: 'x'"
    )


def test_an_output_listed_twice(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y")], IMAGE, outputs=("y", "y")))
    assert refusal(path) == f"{path}: the network's outputs name the tensor 'y' a second time"


def test_batch_below_one(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y")], IMAGE))
    assert refusal(path, batch=0) == f"{path}: batch must be a positive integer, found 0"


def test_another_element_type(tmp_path):
    path = saved(tmp_path, model([node("Relu", "x", "y")], IMAGE))
    assert refusal(path, dtype="i8") == (
        f"{path}: an ONNX model can be read in f32, f64 or fixed point, found 'i8'; name "
        "fixed point with its sums, such as q8.8:q48.16:q8.8"
    )


def test_a_graph_without_nodes(tmp_path):
    path = saved(tmp_path, model([], IMAGE, outputs=("x",)))
    assert refusal(path) == f"{path}: the model computes nothing: its graph has no nodes"


def test_an_element_type_that_is_not_read(tmp_path):
    proto = model([node("Relu", "x", "y")], IMAGE)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT8E4M3FN
    path = saved(tmp_path, proto)
    assert refusal(path) == (
        f"{path}: input 'x' has the element type FLOAT8E4M3FN; supported are FLOAT, UINT8, INT8, "
        "UINT16, INT16, INT32, INT64, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, BFLOAT16"
    )


def test_missing_file(tmp_path):
    path = tmp_path / "none.onnx"
    assert refusal(path) == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an ONNX model: it has no graph"),
        (b"\x89PNG\r\n\x1a\n", "is not an ONNX model: its bytes cannot be decoded"),
    ],
)
def test_not_a_model(tmp_path, content, message):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert refusal(path) == f"{path}: {message}"


def test_numbers_that_do_not_fill_their_shape(tmp_path):
    proto = model([node("Add", "xw", "y")], IMAGE, {"w": floats(8)})
    proto.graph.initializer[0].dims[0] = 9
    path = saved(tmp_path, proto)
    assert refusal(path) == (
        f"{path}: the stored tensor 'w' does not hold the numbers of a 9 f32 tensor"
    )


def test_an_input_without_a_name_beyond_those_of_the_operator_counts(tmp_path):
    nodes = [node("Constant", [""], "c", name="k", value_float=1.0), node("Add", "xc", "y")]
    path = saved(tmp_path, model(nodes, IMAGE))
    assert refusal(path) == f"{path}: node 'k' (Constant): takes 0 inputs, found 1{LISTED}"
