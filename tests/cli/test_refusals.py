"""Mistakes of users: one message with the way out, the right exit code, never a traceback."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.asm import assemble, write_object
from tilewright.cli.main import app
from tilewright.codegen.artifact import EMITS
from tilewright.isa import read_table
from tilewright.machine import list_machines
from tilewright.machine.family import machine_files


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


GEMM_OF_SHORTS = (
    "compile", "gemm", "--m", "3", "--n", "3", "--k", "3", "--dtype", "i16", "--sum-dtype", "i32",
)  # fmt: skip

OTHERS_WITH_CODE = "take another machine: " + ", ".join(
    name for name, (family, _) in machine_files().items() if family in EMITS.families()
)
REFUSALS = [
    (["compile", "vgg"], 1, "unknown network 'vgg'", "did you mean vgg16? or give an .onnx file"),
    (["compile", "gemm", "--m", "3"], 2, "gemm needs --n, --k", ""),
    (["compile", "vgg16", "--threads", "2"], 2, "--threads: 'sw26010' has no threads", ""),
    (["compile", "vgg16", "--kernel", "3"], 2, "'vgg16' does not take --kernel", ""),
    (
        ["compile", "gemm", "--m", "3", "--n", "3", "--k", "3", "--height", "4"],
        2,
        "'gemm' does not take --height",
        "",
    ),
    (
        ["compile", "gemm", "--m", "3", "--n", "3", "--k", "3", "--dtype", "f8"],
        1,
        "unknown element type 'f8'",
        "use one of f64, f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, bool or "
        "fixed point, as q8.8",
    ),
    (
        ["compile", "gemm", "--m", "3", "--n", "3", "--k", "3", "--dtype", "i16"],
        1,
        "gemm: sums of i16 do not hold every product of i16 and i16",
        "sums of more bits, such as i8:i32, i16:i32 or i32:i64",
    ),
    (
        [*GEMM_OF_SHORTS, "--machine", "sw26010"],
        1,
        "machine 'sw26010' computes f64 and f32; gemm m3 n3 k3 has sums of i32",
        "--dtype f64, or a machine that computes i32",
    ),
    (
        ["compile", "gemm", "--m", "3", "--n", "3", "--k", "3", "--sum-dtype", "i32"],
        2,
        "--sum-dtype needs --dtype",
        "",
    ),
    (
        ["compile", "gemm", "--m", "3", "--n", "3", "--k", "3", "--result-dtype", "i32"],
        2,
        "--result-dtype needs --sum-dtype",
        "",
    ),
    (
        [*GEMM_OF_SHORTS, "--dtype", "i16:i32"],
        2,
        "--dtype i16:i32 says the types of sums and result: leave --sum-dtype and --result-dtype",
        "",
    ),
    (["compile", "lenet5", "--sum-dtype", "i32"], 2, "'lenet5' does not take --sum-dtype", ""),
    (
        ["compile", "lenet5", "--schedule", "schedule.txt"],
        2,
        "--schedule is for one operator, conv2d, gemm, batched_matmul, contraction, lookup, map",
        "",
    ),
    (
        ["compile", "lenet5", "--check", "--check-each-algorithm"],
        2,
        "--check already checks every layer: leave --check-each-algorithm",
        "",
    ),
    *[
        ([*words, "--layers"], 2, f"{words[1]} is no network that is planned: leave --layers", "")
        for words in (
            ("check", "gemm", "--m", "8", "--n", "8", "--k", "8"),
            ("check", "lenet5", "-m", "bwdsp-56"),
        )
    ],
    *[
        (
            ["simulate", "x.ir", *words],
            2,
            "--input, --output, --timing and --max-cycles are for programs in assembly language",
            "",
        )
        for words in (
            ("--input", "x.npz"),
            ("--output", "y.npz"),
            ("--timing",),
            ("--max-cycles", "5"),
        )
    ],
    (["compile", "gemm", "--layers"], 2, "--layers is for networks, found gemm", ""),
    *[
        (
            ["compile", *words, "--training"],
            2,
            "--training is for networks that are compiled as a whole",
            "",
        )
        for words in (
            ("lenet5", "--layers"),
            ("gemm", "--m", "3", "--n", "3", "--k", "3"),
            ("lenet5", "-m", "bwdsp-56"),
        )
    ],
    (
        ["compile", "lenet5", "--strict"],
        2,
        "--strict counts in the run that --check makes: add --check",
        "",
    ),
    *[
        (
            ["compile", *words, "--check", "--strict"],
            2,
            "--strict counts in the run of a whole network, not of layers alone",
            "",
        )
        for words in (("lenet5", "--layers"), ("gemm", "--m", "3", "--n", "3", "--k", "3"))
    ],
    (
        ["compile", "lenet5", "--onnx-out", "x.onnx"],
        2,
        "--onnx-out is for networks on machines whose cores divide them",
        "",
    ),
    *[
        (
            ["check", "gemm", "--m", "8", "--n", "8", "--k", "8", "--tile", tile],
            2,
            f"--tile takes [MEMORY:]m=M,n=N,k=K, found {tile!r}",
            "",
        )
        for tile in ("8,8,8", "m=8,n=8", "m=8,n=8,k=0", "m=8,n=8,m=8")
    ],
    (["simulate", __file__, "--layer", "y"], 2, f"{__file__} is no network: leave --layer", ""),
    (["simulate", "gemm", "--m", "8", "--layer", "y"], 2, "gemm is an operator: leave --layer", ""),
    *[
        (
            ["compile", "lenet5", *words],
            2,
            f"{words[0]} is for kernels that are compiled alone: add --layers",
            "",
        )
        for words in (
            ["--partition", "rows"],
            ["--records", "r.db"],
            ["--executor", "local"],
            ["--top", "3"],
            ["--check-each-algorithm"],
        )
    ],
    *[
        (
            [command, "lenet5", "-m", "sw26010_cg", "--records", "r.db"],
            2,
            f"--records is for kernels that are compiled alone: {way_out}",
            "",
        )
        for command, way_out in (
            ("run", "compile --layers takes it"),
            ("explain", "add --layer"),
        )
    ],
    *[
        (
            [command, "lenet5", "-m", "cns1-128", "--dtype", "f64"],
            1,
            "layer c1: conv2d 1x1x32x32 -> 6, 5x5 s1 p0 is no product of activations and weights",
            "take a network of matrix products, and of look-ups and maps of their results",
        )
        for command in ("compile", "explain")
    ],
    (
        ["check", "gemm", "--m", "8", "--n", "8", "--k", "8", "-m", "bwdsp-56"],
        1,
        "machine 'bwdsp-56' has no code generator",
        "check a whole network, check a tile of a gemm (--tile m=8,n=8,k=8), or "
        + OTHERS_WITH_CODE,
    ),
    *(
        (
            [*command, "-m", "bwdsp-56"],
            1,
            "machine 'bwdsp-56' has no code generator",
            f"compile a network as a whole, or {OTHERS_WITH_CODE}",
        )
        for command in (["tune", "lenet5"], ["compile", "lenet5", "--layers"])
    ),
    (
        ["compile", "lenet5", "--machine", "tpu"],
        1,
        "unknown machine 'tpu'",
        f"known machines: {', '.join(list_machines())}; or give the path of a .toml file",
    ),
    (
        ["machines", "sw26010", "--set", "memory.spm.capacity=3"],
        1,
        "unknown key memory.spm.capacity",
        "did you mean memory.spm.capacity_bytes?",
    ),
    (["machines", "sw26010", "--set", "clock"], 2, "--set takes KEY=VALUE, found 'clock'", ""),
    (["machines", "--set", "a=1"], 2, "--set changes one machine: name it", ""),
    (
        ["tune", "gemm", "--m", "8", "--n", "8", "--k", "8", "--executor", "moon"],
        1,
        "unknown executor 'moon'",
        "use inline, local, local:N or dask://HOST:PORT",
    ),
    (
        ["simulate", "x.ir", "--set", "clock_hz=1"],
        2,
        "--set changes the machine that --machine names: give both",
        "",
    ),
]
CONV = ["--in-channels", "4", "--out-channels", "4", "--height", "4", "--width", "4"]


@pytest.mark.parametrize(("arguments", "code", "message", "fix"), REFUSALS)
def test_refusal(arguments, code, message, fix):
    plain, programs = run(*arguments), run(*arguments, "--json")
    assert (plain.exit_code, programs.exit_code) == (code, code)
    assert plain.stdout == ""
    shown = f"error: {message}\n" + (f"  fix: {fix}\n" if fix else "")
    assert plain.stderr == shown or plain.stderr.endswith(f": {shown[len('error: ') :]}")
    error = json.loads(programs.stdout)["error"]
    assert set(error) == {"code", "message", "where", "fix"}
    assert (error["message"], error["fix"]) == (message, fix)


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--kernel", "3y3", "--kernel takes 1 or 2 numbers such as 3 or 3x3, found '3y3'"),
        ("--padding", "1,2,", "--padding takes 1 or 2 or 4 numbers such as 3 or 3x3, found '1,2,'"),
    ],
)  # fmt: skip
def test_numbers_that_are_none(option, text, message):
    options = {"--kernel": "1", option: text}
    words = [word for pair in options.items() for word in pair]
    result = run("compile", "conv2d", *CONV, *words)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


def test_a_kernel_larger_than_the_image():
    result = run("compile", "conv2d", *CONV, "--kernel", "5x1")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: conv2d: kernel height 5 is larger than the padded input height 4 = 4 + 0 + 0\n"
    )


def files(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"\xff\x00 no model")
    (tmp_path / "notes.txt").write_text("import os\nos.system('true')\n")
    (tmp_path / "binary.ir").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "bad.s").write_text("main: vmuldd $1, $2\n")
    (tmp_path / "bad.toml").write_text("name = 3\n")
    (tmp_path / "plain").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["compile", "{}/broken.onnx"],
            "error: {}/broken.onnx: is not an ONNX model: its bytes cannot be decoded\n",
        ),
        (
            ["compile", "{}/none.onnx"],
            "error: {}/none.onnx: cannot be read: No such file or directory\n",
        ),
        (["simulate", "{}/binary.ir"], "error: {}/binary.ir: is not UTF-8 text\n"),
        (
            ["simulate", "{}/none.ir"],
            "error: {}/none.ir: cannot be read: No such file or directory\n",
        ),
        (
            ["explain", "{}/plain"],
            "error: {}/plain: has neither kernel.json nor network.json\n"
            "  fix: give a folder that `tilewright compile -o` wrote\n",
        ),
        (
            ["asm", "{}/bad.s"],
            "bad.s:1:7: error A201: unknown instruction 'vmuldd' in sw26010_cpe\n"
            "    main: vmuldd $1, $2\n          ^~~~~~\n  fix: did you mean 'vmuld'?\n",
        ),
        (["objdump", "{}/none.o"], "error: {}/none.o: cannot read it: No such file or directory\n"),
        (
            ["compile", "gemm", "--m", "8", "--n", "8", "--k", "8", "-o", "{}"],
            "error: {}: holds 'bad.s' and is not a folder that tilewright wrote\n"
            "  fix: give a new folder, or empty this one\n",
        ),
        (
            ["tune", "gemm", "--m", "8", "--n", "8", "--k", "8", "--top", "1", "--records",
             "{}/bad.toml"],
            "error: {}/bad.toml: cannot be used for tuning records: file is not a database\n"
            "  fix: give another file, or move this one away\n",
        ),
    ],
)  # fmt: skip
def test_files_that_are_not_what_they_should_be(arguments, message, tmp_path):
    folder = files(tmp_path)
    result = run(*(word.replace("{}", str(folder)) for word in arguments))
    assert result.exit_code == 1
    assert result.stderr == message.replace("{}", str(folder))


def test_an_object_of_a_table_that_is_not_installed(tmp_path):
    path = Path(__file__).parents[1] / "asm" / "tables" / "bracketed.toml"
    write_object(assemble("stop", read_table(path)), tmp_path / "a.o")
    result = run("objdump", tmp_path / "a.o")
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: {tmp_path}/a.o: it was made with the instruction table 'bracketed', which is not "
        "installed\n  fix: install the family that brings it, or give its file with --table\n"
    )
    assert "  stop\n" in run("objdump", tmp_path / "a.o", "--table", path).stdout
    (tmp_path / "b.o").write_bytes(b"text")
    result = run("objdump", tmp_path / "b.o")
    assert result.stderr == (
        f"error: {tmp_path}/b.o: not an ELF64 file\n  fix: make it with tilewright asm\n"
    )


def test_a_text_that_is_no_program(tmp_path):
    path = files(tmp_path) / "notes.txt"
    result = run("simulate", path)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path}")


def test_missing_and_impossible_options_are_usage():
    assert run("compile").exit_code == 2
    zero = run("compile", "gemm", "--m", "0", "--n", "1", "--k", "1")
    assert zero.exit_code == 2
    assert "Invalid value for '--m'" in zero.stderr


@pytest.mark.parametrize("extent", [2**31 - 1, 2**20])
def test_extents_beyond_any_memory_are_refused_in_words(extent):
    result = run("compile", "gemm", "--m", extent, "--n", extent, "--k", extent)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: each of 4 pieces: gemm of gemm m")
    assert "bytes of main memory" in result.stderr


def test_a_border_beyond_any_memory_is_refused_in_words():
    result = run("compile", "conv2d", *CONV, "--kernel", "3", "--padding", "999999999")
    assert result.exit_code == 1
    assert "bytes of main memory" in result.stderr
