"""Training of networks on a machine: a network, examples and settings in, weights out.

The training step is a network (`graph.training`) that the machine's family compiles. This package
holds the examples it reads, the epochs, and the checkpoints.
"""

from tilewright.training.epochs import Examples, Settings, Trained, digits, read_examples, train

__all__ = ["Examples", "Settings", "Trained", "digits", "read_examples", "train"]
