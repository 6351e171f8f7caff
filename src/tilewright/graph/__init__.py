"""Networks: graphs of operators on tensors, from the zoo or from model files."""

from tilewright.graph.graph import Network, Node, Tensor
from tilewright.graph.names import safe_name
from tilewright.graph.zoo import list_networks, network

__all__ = ["Network", "Node", "Tensor", "list_networks", "network", "safe_name"]
