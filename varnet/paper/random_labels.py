"""Random labels: dropout learns them by heart, sparse variational dropout removes every weight (lectures)."""

from varnet.paper.targets import table
from varnet.report.tables import Published

NETWORKS = {"mnist": "MNIST, fc", "cifar10": "CIFAR-10, VGG-like"}
METHODS = {
    "dropout": {"train_acc_det": 100.0, "acc_det": 10.0},
    "sparse_vd": {"train_acc_det": 10.0, "acc_det": 10.0, "sparsity_all": 100.0},
}

table(
    "random_labels",
    "Random labels: what memorises them and what does not",
    [
        Published(f"{title}, {method.replace('_', ' ')}", f"random_labels_{data}_{method}", metric, value)
        for data, title in NETWORKS.items()
        for method, numbers in METHODS.items()
        for metric, value in numbers.items()
    ],
)
