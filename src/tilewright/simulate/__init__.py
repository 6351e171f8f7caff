"""Simulation: programs run on the described machine, with every idle cycle explained."""

from tilewright.simulate.image import LoadedImage, load_image
from tilewright.simulate.instruction_level import simulate_core, simulate_mesh
from tilewright.simulate.launch import Mesh
from tilewright.simulate.program import Program, encode_program
from tilewright.simulate.runs import CoreRun, Issue, MeshRun, StallSpan
from tilewright.simulate.stopped import BlockedCore, DeadlockError, DeadlockReport

__all__ = [
    "BlockedCore",
    "CoreRun",
    "DeadlockError",
    "DeadlockReport",
    "Issue",
    "LoadedImage",
    "Mesh",
    "MeshRun",
    "Program",
    "StallSpan",
    "encode_program",
    "load_image",
    "simulate_core",
    "simulate_mesh",
]
