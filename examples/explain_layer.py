"""Why does a layer take the time it takes? Causes that sum to the total, and what would help.

The layer is the fourth convolution of VGG-16 on one core group of the SW26010. The last line writes
a timeline that ui.perfetto.dev opens.
"""

from pathlib import Path

import tilewright as tw
from tilewright.report.perfetto import perfetto_json

network = tw.load("vgg16", batch=16)
layer = dict(network.layers())["conv4_1"]
kernel = tw.compile(layer, machine="sw26010_cg")
print(kernel.explain())

found = kernel.explanation(changes=False)
waiting = sum(cause.cycles for cause in found.causes if cause.kind.startswith("wait"))
cycles = found.layer.simulated_cycles
print(f"waiting for transfers: {waiting / cycles:.1%} of {cycles} cycles")

run = kernel.simulate(trace_limit=10_000)
Path("timeline.json").write_text(perfetto_json(run, kernel.machine, "conv4_1"), encoding="utf-8")
