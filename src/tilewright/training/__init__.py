"""Training networks on a machine: a network, examples and settings in, weights out.

The step is a network (`graph.training`) that the machine's family compiles; here are the examples
that it is given, the epochs, and what is kept on the way.
"""

from tilewright.training.epochs import Examples, Settings, Trained, digits, read_examples, train

__all__ = ["Examples", "Settings", "Trained", "digits", "read_examples", "train"]
