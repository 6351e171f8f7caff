"""What would another machine do? Every number of a machine is data; here its scratchpad varies.

On the command line: `tilewright compile ... --set memory.spm.capacity_bytes=32768`. A machine of
your own is a file of a few lines that names its base: docs/reference/machine.md.
"""

from pathlib import Path

import tilewright as tw

conv = tw.ops.conv2d(batch=32, in_channels=128, out_channels=128, height=14, width=14, kernel=3)
print("scratchpad  cycles simulated  % of peak")
for kib in (16, 32, 64, 128):
    machine = tw.load_machine("sw26010_cg", {"memory.spm.capacity_bytes": kib * 1024})
    kernel = tw.compile(conv, machine, algorithm="implicit").plan.only
    print(f"{kib:6} KiB  {kernel.cycles:16}  {100 * kernel.result.peak_fraction:8.1f}")

Path("slow_memory.toml").write_text(
    """\
name = "slow_memory"
description = "One core group behind half the memory bandwidth"
base = "sw26010_cg"

[dma.get]
peak_bytes_per_second = 16.55e9

[sources]
"dma.get.peak_bytes_per_second" = "half of the SW26010's, to see what it costs"
""",
    encoding="utf-8",
)
kernel = tw.compile(conv, machine="slow_memory.toml", algorithm="implicit").plan.only
print(f"{kernel.machine.name}: {kernel.cycles} cycles simulated")
