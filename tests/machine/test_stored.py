"""Machines that older versions stored, and those that this one does."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from tilewright.machine import describe, list_machines, load_machine
from tilewright.machine.build import stored_machine
from tilewright.machine.model import document_of


@pytest.mark.parametrize("file", sorted((Path(__file__).parent / "stored").glob("*.json")))
def test_a_machine_that_an_older_version_stored_is_read_as_the_same_machine(file):
    now = load_machine(file.stem)
    stored = stored_machine(_with_changes(json.loads(file.read_text()), now))
    types = {name: now.core.arithmetic[name] for name in stored.core.arithmetic}
    now = structs.replace(now, core=structs.replace(now.core, arithmetic=types))
    assert describe(stored) == describe(now)
    assert stored.content_hash() == now.content_hash()


_CHAINS = "primitives.gemm.chains"


def _with_changes(document, now):
    """A stored SW26010 without what its primitives take, which is derived from their code now, and
    with what came later: what a launch and barriers take, and chains of products; this computer's
    with the latency of multiply-adds, pages, streams, what is fetched ahead and what is handed
    over, and the processors it was measured on.
    """
    if document["target"] == "host":
        caches = document_of(now)["memory"]["caches"]
        ahead = ("lines_ahead", "steps_ahead", "rows_ahead", "squares_ahead")
        by_itself = ("streams", "lines_followed", "lines_at_once", "latency_steps")
        later = ("pages", *by_itself, *ahead, "handed_cycles_per_byte")
        document["memory"]["caches"] |= {key: caches[key] for key in later}
        latency = "multiply_add_latency_cycles"
        document["core"][latency] = document_of(now)["core"][latency]
        added = (f"core.{latency}", *(f"memory.caches.{key}" for key in later))
        why = ([key, why] for key, why in now.sources if key.startswith((*added, "processor.")))
        document["processor"] = document_of(now)["processor"]
        document["sources"] = sorted([*document["sources"], *why])
    if document["target"] != "sw26010":
        return document
    for kind in ("f64", "f32"):
        del document["primitives"]["gemm"][kind]
    derived = ("primitives.gemm.f64.", "primitives.gemm.f32.")
    groups = ("launch_cycles", "barrier_cycles", "meet_cycles")
    document["groups"] |= {key: getattr(now.groups, key) for key in groups}
    document["primitives"]["gemm"]["chains"] = True
    sources, later = dict(now.sources), (*(f"groups.{key}" for key in groups), _CHAINS)
    document["sources"] = [
        *(pair for pair in document["sources"] if not pair[0].startswith(derived)),
        *([key, sources[key]] for key in later),
    ]
    return document


@pytest.mark.parametrize("name", list_machines())
def test_a_stored_machine_is_the_machine(name):
    machine = load_machine(name)
    assert stored_machine(json.loads(msgspec.json.encode(document_of(machine)))) == machine
