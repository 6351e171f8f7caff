"""A roofline as text, whole."""

from tilewright.cost.roofline import Level, Roofline, Stream
from tilewright.report.explain import roofline_text

MEMORY = Level(
    "main <-> scratchpad",
    (
        Stream("x get", 1000, 2000, 256.0, 20e9, 22.9e9),
        Stream("y put", 500, 500, 128.0, 10e9, 18.7e9),
    ),
    30e9,
    21.3e9,
    0.71,
    330.2e9,
    527.1e9,
)
REGISTERS = Level(
    "scratchpad <-> registers",
    (Stream("factors", 4000, 4000, 0.0, 1484.8e9, 2969.6e9),),
    1484.8e9,
    2969.6e9,
    2.0,
    668.2e9,
    742.4e9,
)
DIRECT = Level("main <-> registers", (), 8908.8e9, 8e9, 0.000898, 0.54e6, 667e6)
ROOF = Roofline("toy", 742.4e9, 10**9, 0.9, 0.9, (MEMORY, REGISTERS), DIRECT, 297.2e9, 474.4e9)


def test_bound_by_the_memory():
    assert (
        roofline_text(ROOF)
        == """\
roofline of one core group (model): peak 742.4 Gflop/s, execution efficiency 90.0 %
  level                     block  required GB/s  available GB/s     share  Gflop/s  squared
  main <-> scratchpad                       30.0            21.3      0.71    527.1    330.2
    x get                     256           20.0            22.9
    y put                     128           10.0            18.7
  scratchpad <-> registers                1484.8          2969.6         2    742.4    668.2
  main <-> registers                      8908.8             8.0  0.000898      0.7  0.00054
bound by the bandwidth of main <-> scratchpad: 474.4 Gflop/s if all overlaps, 297.2 by the squared \
shares of swDNN III-D
10.0 % of the operations are padding, not counted
"""
    )


def test_bound_by_the_primitives():
    roof = Roofline("toy", 742.4e9, 10**9, 1.0, 0.9, (REGISTERS,), DIRECT, 668.2e9, 668.2e9)
    assert roofline_text(roof).splitlines()[-1] == (
        "bound by the primitives: 668.2 Gflop/s if all overlaps, "
        "668.2 by the squared shares of swDNN III-D"
    )


def test_of_several_threads_it_is_that_of_each():
    assert roofline_text(ROOF, 4).startswith("roofline of one of 4 threads (model): peak 742.4 ")
