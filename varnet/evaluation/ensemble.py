"""Deep ensembles: any set of runs is one network that averages their predictions (the baselines of section 6.3).

Its output is the log of the averaged probabilities, which log_softmax leaves as it is: everything that takes a network
takes an ensemble, samples included, each of which is one sample of every member. The checkpoints that a run keeps on
its way (`snapshots=[10,20,30]`) make a snapshot ensemble.
"""

from collections.abc import Iterable

from torch import Tensor, nn

from varnet.evaluation.metrics import average_probs


class Ensemble(nn.Module):
    """Network that averages its members, which take the same inputs and know the same classes."""

    def __init__(self, members: Iterable[nn.Module]):
        super().__init__()
        self.members = nn.ModuleList(members)
        if not len(self.members):
            raise ValueError("an ensemble needs at least one network")

    def forward(self, x: Tensor) -> Tensor:
        return average_probs([member(x).float().log_softmax(1) for member in self.members])
