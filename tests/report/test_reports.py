"""Reports of what was compiled: found by their module, complete, and safe to open."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tilewright as tw
from tilewright.cli.main import app
from tilewright.compiler.artifact import read_compiled
from tilewright.report.reports.page import spent_on
from tilewright.report.subject import Subject, load_report, report_titles
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
    return Subject("net", "small", 2, "f64", layers, 3.0, found)


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
        "layer,timed_by,kind,subject,cycles\n"
        "a,simulated,compute useful,gemm,60\n"
        "a,simulated,wait bandwidth,a get,30\n"
        "a,simulated,primitive,fill,10\n"
        "b,simulated,compute useful,gemm,60\n"
        "b,simulated,wait bandwidth,a get,30\n"
        "b,simulated,primitive,fill,10\n"
    )


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
        assert [x.name for x in one.layers] == [kernel.name]
        assert all(whole.explained(x) is not None for x in whole.layers)
        assert all(x.name in report.text(whole) for x in whole.layers)
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
