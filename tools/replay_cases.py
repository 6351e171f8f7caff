"""The fixed set of cases that `replay.py` runs, and what is kept of each: a folder of files.

    python tools/replay_cases.py FOLDER [--only NAME] [--jobs N]

Run with another revision's sources in front of the path, the same cases are recorded of that
revision. Only the public interface is used, the module `tilewright` and the command of that name,
so that the script works with any revision.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

Action = Callable[[Path], None]
"""Runs a case and leaves the files to be compared in a folder."""

KERNELS = 200
LARGEST_TEXT_BYTES = 4_000_000
"""Larger files, such as constants of networks, are kept as their digests."""
SIMULATED = ("sw26010", "sw26010_cg", "sw26010_measured")
NATIVE = ("host", "host_avx2", "host_portable")
NETWORKS = ("lenet5", "alexnet", "vgg16", "resnet50", "yolov2")
VOLATILE = ("timings", "seconds", "version", "output")
"""Parts of the names of JSON fields whose values differ from run to run."""


@dataclass(frozen=True)
class Case:
    """One case; `name` is its folder."""

    name: str
    action: Action


def command(arguments: tuple[str, ...], folder: Path) -> None:
    """Run `tilewright` and keep its output and its exit code."""
    words = [str(folder / "written") if a == "WRITTEN" else a for a in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", *words], capture_output=True, text=True, check=False
    )
    text = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    (folder / "output.txt").write_text(text.replace(str(folder), "FOLDER"))


def written(arguments: tuple[str, ...], folder: Path) -> None:
    """Run `tilewright compile` and keep the folder that it writes beside its `--json` form."""
    command((*arguments, "-o", "WRITTEN", "--json"), folder)


def kernel(workload: dict[str, Any], machine: str, settings: dict[str, Any], folder: Path) -> None:
    """Compile one operator, then its best losing schedule, and keep the folders of both."""
    import tilewright as tw

    kind, extents = workload["kind"], {k: v for k, v in workload.items() if k != "kind"}
    try:
        op = getattr(tw.ops, kind)(**extents)
        found = tw.compile(op, machine=machine, measure=False, **settings)
        found.write(folder / "best")
        only = found.plan.only if hasattr(found, "plan") else found  # as older revisions name it
        losers = only.explanation(what_if=False).rejected
        if losers:
            other = tw.compile(
                op,
                machine=machine,
                measure=False,
                schedule=losers[-1].schedule,
                partition=losers[-1].partition,
            )
            other.write(folder / "other")
    except tw.TilewrightError as error:
        (folder / "refused.txt").write_text(f"{error}\n")


def reproduction(folder: Path) -> None:
    """Every table and figure on a small subset of its cases."""
    command(("reproduce", "--all", "--quick", "-o", "WRITTEN"), folder)
    (folder / "output.txt").unlink()
    for path in folder.rglob("*"):
        if path.suffix in (".pdf", ".png", ".svg"):
            path.unlink()


def random_gemm(draw: random.Random) -> dict[str, Any]:
    """A matrix product: small, odd or large extents, any transposition."""
    sizes = (draw.randint(1, 60), draw.randint(1, 300), draw.choice([8, 32, 64, 128, 129, 512]))
    m, n, k = (draw.choice(sizes) for _ in range(3))
    return {
        "kind": "gemm",
        "m": m,
        "n": n,
        "k": k,
        "transpose_a": draw.random() < 0.3,
        "transpose_b": draw.random() < 0.3,
        "alpha": draw.choice([1.0, 1.0, 1.0, 0.5]),
        "beta": draw.choice([0.0, 0.0, 0.0, 1.0, -2.0]),
    }


def random_conv2d(draw: random.Random) -> dict[str, Any]:
    """A convolution: few or many images and channels, small images."""
    kernel_size = draw.choice([1, 3, 3, 5])
    return {
        "kind": "conv2d",
        "batch": draw.choice([1, 1, 2, 8, 32, 128]),
        "in_channels": draw.choice([1, 3, 16, 32, 48, 64, 128]),
        "out_channels": draw.choice([6, 16, 32, 64, 96, 128]),
        "height": draw.choice([7, 8, 13, 14, 28]),
        "width": draw.choice([7, 8, 13, 14, 28]),
        "kernel": kernel_size,
        "padding": draw.choice([0, kernel_size // 2]),
        "stride": draw.choice([1, 1, 2]),
    }


def kernels() -> Iterator[Case]:
    """Random operators on random machines, the same ones in every run."""
    draw = random.Random(26010)
    for number in range(KERNELS):
        workload = random_gemm(draw) if draw.random() < 0.4 else random_conv2d(draw)
        native = draw.random() < 0.5
        machine = draw.choice(NATIVE if native else SIMULATED)
        workload["dtype"] = draw.choice(["f32", "f64"])
        settings: dict[str, Any] = {"keep": draw.choice([1, 4, 8])}
        if workload["kind"] == "conv2d" and draw.random() < 0.7:
            settings["algorithm"] = draw.choice(
                ["implicit", "explicit", "winograd2", "winograd4", "swdnn_batch", "direct"]
            )
        yield Case(f"kernels/{number:03}", partial(kernel, workload, machine, settings))


def zoo() -> Iterator[Case]:
    """The layers of the known networks on the SW26010, and the networks on this computer."""
    for name in NETWORKS:
        for batch in ("1", "128"):
            words = ("compile", name, "--machine", "sw26010", "--batch", batch)
            yield Case(f"zoo/{name}_{batch}", partial(written, words))
        for machine, threads in (("host_avx2", "1"), ("host_avx2", "2"), ("host_portable", "1")):
            words = ("compile", name, "--machine", machine, "--threads", threads, "--no-measure")
            yield Case(f"zoo/{name}_{machine}_{threads}", partial(written, words))
    words = ("compile", "resnet50", "--machine", "sw26010_measured", "--batch", "32")
    yield Case("zoo/resnet50_measured", partial(written, words))


LAYER = (
    *("conv2d", "--batch", "32", "--in-channels", "64", "--out-channels", "64"),
    *("--height", "28", "--width", "28", "--kernel", "3", "--padding", "1"),
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "machines": ("machines", "--json"),
    "machines_text": ("machines",),
    "machine_sw26010": ("machines", "sw26010", "--json"),
    "machine_measured": ("machines", "sw26010_measured", "--json"),
    "machine_host": ("machines", "host_avx2", "--json"),
    "machine_set": ("machines", "sw26010", "--set", "memory.spm.capacity_bytes=131072"),
    "machine_unknown": ("machines", "sw26010", "--set", "memory.spn.capacity_bytes=1"),
    "machine_wrong": ("machines", "sw26010", "--set", "dma.latency_cycles=many"),
    "check": ("check", "vgg16", "--machine", "sw26010", "--batch", "128", "--json"),
    "check_host": ("check", "vgg16", "--machine", "host_avx2", "--json"),
    "check_small": ("check", *LAYER, "--set", "memory.spm.capacity_bytes=4608"),
    "explain": ("explain", *LAYER, "--machine", "sw26010"),
    "explain_json": ("explain", *LAYER, "--machine", "sw26010", "--json"),
    "explain_roofline": ("explain", *LAYER, "--machine", "sw26010", "--roofline"),
    "tune": ("tune", *LAYER, "--machine", "sw26010_cg", "--method", "simulate", "--top", "3"),
    "tune_json": ("tune", *LAYER, "--machine", "sw26010_cg", "--json"),
    "compile_layer": ("compile", *LAYER, "--check", "--json"),
    "mesh": ("compile", "gemm", "--m", "100", "--n", "90", "--k", "70", "--set", "mesh.rows=4"),
    "help": ("--help",),
    **{
        f"help_{name}": (name, "--help")
        for name in ("compile", "tune", "run", "simulate", "check", "explain", "machines")
    },
}


def commands() -> Iterator[Case]:
    """Commands with what they print."""
    for name, words in COMMANDS.items():
        yield Case(f"commands/{name}", partial(command, words))


def every_case() -> list[Case]:
    """All cases, longest first."""
    return [Case("reproduce", reproduction), *zoo(), *kernels(), *commands()]


def stable(value: Any) -> Any:
    """JSON without fields that differ from run to run."""
    match value:
        case dict():
            return {
                key: stable(inner)
                for key, inner in value.items()
                if not any(word in key for word in VOLATILE) and value.get("kind") != "measured"
            }
        case list():
            return [stable(inner) for inner in value]
        case _:
            return value


def normalised(path: Path) -> None:
    """Rewrite one kept file without values that differ from run to run; large files as digests."""
    data = path.read_bytes()
    if len(data) > LARGEST_TEXT_BYTES:
        path.write_text(f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\n")
    elif path.suffix == ".json":
        path.write_text(stable_text(data.decode()))
    elif path.name == "output.txt":
        head, _, rest = data.decode().partition("\n")
        path.write_text(f"{head}\n{stable_text(rest)}")


def stable_text(text: str) -> str:
    """JSON without fields that differ from run to run, other text without seconds."""
    try:
        return json.dumps(stable(json.loads(text)), indent=1, sort_keys=True) + "\n"
    except ValueError:
        return re.sub(r"\b\d+\.\d+ s\b", "... s", text)


def record(case: Case, root: Path) -> str:
    """Run one case into its folder."""
    folder = root / case.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case.action(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            normalised(path)
    return case.name


def main() -> None:
    """Record all cases, `--jobs` at a time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    cases = [case for case in every_case() if case.name.startswith(arguments.only)]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        names = pool.map(partial(record, root=arguments.folder.resolve()), cases)
        for number, name in enumerate(names, 1):
            print(f"\r{number:4} of {len(cases)}  {name:40}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


if __name__ == "__main__":
    main()
