"""Shared drawings: what is drawn, and files that are equal for equal figures."""

import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

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


@pytest.mark.parametrize("log_x", [False, True])
def test_lines_and_bars_stand_on_zero(log_x):
    drawn = lines([1, 2], {"a": [5, 9]}, title="t", x_label="x", y_label="y", log_x=log_x)
    for figure in (drawn, bars(["a"], {"b": [5]}, title="t", y_label="y")):
        assert figure.axes[0].get_ylim()[0] == 0


def test_scatter_draws_the_diagonal_of_equal_numbers():
    (axes,) = scatter({"a": [(1, 2), (3, 5)]}, title="t", x_label="x", y_label="y").axes
    (diagonal,) = axes.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0.95, 5.25]


@pytest.mark.parametrize("title", ["t", "word " * 40, "MMMMMMM " * 40])
@pytest.mark.parametrize("columns", [2, 40])
def test_titles_end_inside_the_figure_and_above_the_drawing(title, columns):
    labels, numbers = [str(i) for i in range(columns)], list(range(columns))
    figures = [
        bars(labels, {"ours": numbers}, title=title, y_label="y"),
        lines(numbers, {"ours": numbers}, title=title, x_label="x", y_label="y"),
        scatter({"ours": [(1, 2)]}, title=title, x_label="x", y_label="y"),
    ]
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        extent = figure.texts[0].get_window_extent(canvas.get_renderer())
        assert figure.texts[0].get_text() == title
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1
        assert extent.y1 <= figure.bbox.y1
        assert extent.y0 >= figure.axes[0].get_window_extent().y1


def test_equal_figures_give_equal_files(tmp_path):
    def draw():
        return bars(["$a_1$"], {"ours": [1]}, title="$ & <tag>", y_label="y")

    first, second = (save_figure(draw(), tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["one.svg", "one.png"]
    assert first[0].read_bytes() == second[0].read_bytes()
    assert "$a_1$" in first[0].read_text()  # a label is no formula
    assert first[1].read_bytes().startswith(b"\x89PNG")


def test_a_legend_of_more_than_four_series_stands_beside_the_bars():
    def legend_and_axes(count):
        figure = bars(["a"], {str(i): [1.0] for i in range(count)}, title="t", y_label="y")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        (axes,) = figure.axes
        legend = axes.get_legend().get_window_extent(canvas.get_renderer())
        return legend, axes.get_window_extent(canvas.get_renderer())

    for count in (2, 4, 5):
        legend, axes = legend_and_axes(count)
        assert (legend.x0 >= axes.x1) == (count > 4)
