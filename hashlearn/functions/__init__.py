"""Hash functions, which are fitted to features and learned codes and give the codes of new rows."""

from hashlearn.functions.linear import LinearFunction, RidgeSums
from hashlearn.functions.network import Network
from hashlearn.functions.trees import BoostedTrees

__all__ = ["BoostedTrees", "LinearFunction", "Network", "RidgeSums"]
