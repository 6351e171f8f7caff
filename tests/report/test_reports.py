"""Reports of what was compiled: found by their module, complete, and safe to open."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs
from typer.testing import CliRunner

import tilewright as tw
from tilewright.cli.main import app
from tilewright.compiler.artifact import read_compiled
from tilewright.network.results import NetworkRun, StageResult
from tilewright.report.reports.page import spent_on
from tilewright.report.subject import (
    Subject,
    load_report,
    report_titles,
    subject_of_layers,
    subject_of_stages,
)
from tilewright.report.view import CauseRow, Explanation, LayerResult


def layer(name: str, milliseconds: float) -> LayerResult:
    return LayerResult(
        name=name,
        op="gemm",
        shape="gemm m4 n4 k4",
        algorithm="gemm",
        partition="whole",
        schedule="algorithm gemm",
        candidates=10,
        estimate_cycles=90,
        simulated_cycles=100,
        milliseconds=milliseconds,
        gflops=1.5,
        peak_fraction=0.25,
        bound="compute",
        lower_bound_cycles=50,
        artifact=name,
    )


def explained(of: LayerResult) -> Explanation:
    causes = (
        CauseRow("compute useful", "gemm", 60),
        CauseRow("wait bandwidth", "a get", 30),
        CauseRow("primitive", "fill", 10),
    )
    return Explanation(of, "small", 1, 1, 10**9, causes, (), 64, 128, 50, 20)


def compiled(*names: str) -> Subject:
    layers = tuple(layer(name, 1.0 + i) for i, name in enumerate(names))
    found = {x.name: explained(x) for x in layers}
    return subject_of_layers("net", "small", ("batch 2", "f64"), layers, 3.0, found)


RUN = NetworkRun(
    "net", "small", "f64", compile_seconds=0.5, constant_bytes=0, arena_bytes=64,
    stages=(
        StageResult(
            "a", "gemm m4 n4 k4", "gemm", 0.3, work="product", cycles=75, bound="compute", groups=4,
            divided="rows", causes={"compute useful": 60, "launch": 15}, nodes=("a", "a_bias"),
            moved_bytes=96,
        ),
        StageResult("b", "relu", "", None, work="elementwise", cycles=25, causes={"meeting": 25}),
    ),
)  # fmt: skip


def simulated() -> NetworkRun:
    return structs.replace(RUN, milliseconds=0.04, cycles=100, groups=1, gflops=1.0)


def measured() -> NetworkRun:
    a, b = RUN.stages
    stages = (
        structs.replace(a, cycles=None, bound="", groups=1, measured_milliseconds=0.2),
        structs.replace(b, cycles=None, causes={}, measured_milliseconds=0.1),
    )
    return structs.replace(RUN, stages=stages, milliseconds=0.31, gflops=1.0)


class Elements(HTMLParser):
    """Start and end tags in order, texts, and the widths of all bars."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.widths: list[float] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        if tag == "rect":
            self.widths.append(float(dict(attrs)["width"].removesuffix("%")))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Elements:
    parser = Elements()
    parser.feed(page)
    assert not parser.open
    return parser


def test_causes_are_one_line_each() -> None:
    assert load_report("causes").text(compiled("a", "b")) == (
        "layer,cycles_by,kind,subject,cycles\n"
        "a,simulated,compute useful,gemm,60\n"
        "a,simulated,wait bandwidth,a get,30\n"
        "a,simulated,primitive,fill,10\n"
        "b,simulated,compute useful,gemm,60\n"
        "b,simulated,wait bandwidth,a get,30\n"
        "b,simulated,primitive,fill,10\n"
    )


def test_causes_of_stages_say_whether_they_are_of_the_simulation_or_of_the_model() -> None:
    expected = "stage,cycles_by,kind,subject,cycles\na,{by},compute useful,,60\na,{by},launch,,15\n"
    text = load_report("causes").text(subject_of_stages(simulated()))
    assert text == expected.format(by="simulated") + "b,simulated,meeting,,25\n"
    assert load_report("causes").text(subject_of_stages(measured())) == expected.format(by="model")


def test_the_lines_of_a_network_are_its_stages_by_their_part_of_the_time() -> None:
    found = subject_of_stages(simulated())
    assert [(x.name, x.milliseconds, x.time, x.note) for x in found.lines] == [
        ("a", 0.03, "0.03000 ms", "75.0 % of time"),
        ("b", 0.01, "0.01000 ms", "25.0 % of time"),
    ]
    assert found.lines[0].details == (
        "gemm m4 n4 k4\ncomputes a, a_bias\non 4 core groups, divided by rows\nmoves 96 bytes\n\n"
        "  cause           cycles   share\n  compute useful      60  80.0 %\n"
        "  launch              15  20.0 %"
    )
    assert (
        found.lines[1].details == "relu\n\n  cause    cycles    share\n  meeting      25  100.0 %"
    )
    page = read(load_report("page").text(found))
    assert "f64, 2 stages: 0.040 ms (simulated). tilewright 0.1.0." in page.texts
    assert found.totals in page.texts


def test_a_measured_network_is_divided_by_the_causes_of_the_model() -> None:
    found = subject_of_stages(measured())
    assert [(x.time, x.timed_by, x.causes_by, x.bound) for x in found.lines] == [
        ("0.2000 ms", "measured", "model", "product"),
        ("0.1000 ms", "measured", "model", "elementwise"),
    ]
    page = read(load_report("page").text(found))
    head = "f64, 2 stages: 0.310 ms (measured, divided by the model's causes). tilewright 0.1.0."
    assert head in page.texts
    assert page.widths[2:] == [80.0, 20.0, 50.0]


def test_a_network_that_was_not_run_has_the_times_of_the_model() -> None:
    found = subject_of_stages(structs.replace(measured(), milliseconds=None, stages=RUN.stages))
    assert [(x.milliseconds, x.timed_by) for x in found.lines] == [(0.3, "model"), (0.0, "model")]
    assert found.total_milliseconds == 0.3
    idle = tuple(structs.replace(stage, estimate_milliseconds=0.0) for stage in RUN.stages)
    found = subject_of_stages(structs.replace(RUN, milliseconds=None, stages=idle))
    assert found.total_milliseconds == 0.0


def test_bars_have_the_length_of_their_layer_divided_by_cause() -> None:
    page = read(load_report("page").text(compiled("a", "b")))
    legend, bars = page.widths[:3], page.widths[3:]
    assert legend == [100.0, 100.0, 100.0]
    assert bars == [30.0, 5.0, 15.0, 60.0, 10.0, 30.0]


def test_names_of_a_model_are_text_and_nothing_is_loaded_from_elsewhere() -> None:
    name = "<script>alert(1)</script>"
    text = load_report("page").text(compiled(name))
    page = read(text)
    assert name in page.texts
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "http" not in text


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        ("compute useful", "useful work"),
        ("compute padding", "work on padding"),
        ("compute overhead", "overhead of products"),
        ("wait latency", "waiting for data"),
        ("dma issue", "issuing transfers"),
        ("meeting", "starting and meeting"),
        ("instruction cache", "instruction cache"),
        ("loop", "other"),
    ],
)
def test_causes_are_gathered_by_what_cycles_are_spent_on(kind: str, meaning: str) -> None:
    assert spent_on(CauseRow(kind, "", 1)) == meaning


def test_every_report_takes_a_written_network_and_a_written_operator(tmp_path: Path) -> None:
    network = tw.compile("lenet5", machine="sw26010_cg", batch=1, layers=True)
    network.write(tmp_path / "network")
    kernel = next(iter(network.plan.kernels.values()))
    kernel.write(tmp_path / "kernel")
    for name in report_titles():
        report = load_report(name)
        whole, one = (read_compiled(tmp_path / x) for x in ("network", "kernel"))
        assert [x.name for x in one.lines] == [kernel.name]
        assert all(x.causes for x in whole.lines)
        assert f"{whole.total_milliseconds:.3f} ms simulated on sw26010_cg" in whole.totals
        assert all(x.name in report.text(whole) for x in whole.lines)
        assert kernel.name in report.text(one)


def test_the_command_says_where_the_file_is(tmp_path: Path) -> None:
    tw.compile(tw.ops.gemm(64, 64, 64), machine="sw26010_cg").write(tmp_path / "product")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "product")])
    assert done.output == f"written to {tmp_path / 'product' / 'report.html'}\n"
    assert (tmp_path / "product" / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--as", "pie"], "there is no report 'pie'\n  fix: the reports are causes, page\n"),
        (
            [],
            "{folder}: has neither kernel.json nor network.json\n"
            "  fix: give a folder that `tilewright compile -o` wrote\n",
        ),
    ],
    ids=["unknown", "empty"],
)
def test_refusals_name_what_there_is(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(tmp_path), *arguments])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: {message.format(folder=tmp_path)}"
