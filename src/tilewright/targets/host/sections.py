"""What the description of a computer's processor has beyond every machine's: caches, primitives."""

from tilewright.machine.sections import Caches, GemmPrimitive, Sections, VectorPrimitive

SECTIONS = Sections(
    required=(GemmPrimitive, VectorPrimitive),
    optional=(Caches,),
    needs=("memory.spm", "memory.main", "dma.get", "dma.put"),
)
