"""Shared drawings: what is drawn, and files that are equal for equal figures."""

import math

from tilewright.papers.figures import bars, level_line, lines, save_figure, scatter


def test_bars_leave_a_gap_where_there_is_no_number():
    figure = bars(["a", "b"], {"ours": [1, None], "published": [2, 3]}, title="t", y_label="y")
    (axes,) = figure.axes
    heights = [patch.get_height() for patch in axes.patches]
    assert [h for h in heights if not math.isnan(h)] == [1, 2, 3]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["a", "b"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "published"]


def test_lines_and_a_level():
    figure = lines([1, 2, 4], {"get": [1, 2, 3]}, title="t", x_label="x", y_label="y", log_x=True)
    level_line(figure, 2.5, "peak")
    (axes,) = figure.axes
    assert [line.get_label() for line in axes.lines] == ["get", "peak"]
    assert axes.get_xscale() == "log"


def test_scatter_draws_the_diagonal_of_equal_numbers():
    (axes,) = scatter({"a": [(1, 2), (3, 5)]}, title="t", x_label="x", y_label="y").axes
    (diagonal,) = axes.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0.95, 5.25]


def test_equal_figures_give_equal_files(tmp_path):
    def draw():
        return bars(["$a_1$"], {"ours": [1]}, title="$ & <tag>", y_label="y")

    first, second = (save_figure(draw(), tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["one.svg", "one.png"]
    assert first[0].read_bytes() == second[0].read_bytes()
    assert "$a_1$" in first[0].read_text()
    assert first[1].read_bytes().startswith(b"\x89PNG")
