"""What the description of an SW26010 has beyond every machine's: its primitives."""

from tilewright.machine.sections import GemmPrimitive, Sections, VectorPrimitive

SECTIONS = Sections(
    required=(GemmPrimitive, VectorPrimitive),
    needs=("mesh", "memory.spm", "memory.main", "dma.get", "dma.put"),
)
