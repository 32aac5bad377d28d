"""Sparse variational dropout on MNIST: error, compression and the part of each layer that is removed (lectures)."""

from varnet.paper.targets import table
from varnet.report.tables import Published

NETWORKS = {  # title, error of the original network, then the sparse one's numbers
    "lenet300": (
        "LeNet-300-100", 1.64,
        {"error": 1.92, "compression": 68.0, "sparsity.dense1": 98.9, "sparsity.dense2": 97.2, "sparsity.dense3": 62.0},
    ),
    "lenet5": (
        "LeNet-5", 0.80,
        {"error": 0.75, "compression": 280.0, "sparsity.conv1": 67.0, "sparsity.conv2": 98.0, "sparsity.dense1": 99.8,
         "sparsity.dense2": 95.0},
    ),
}  # fmt: skip


def lines() -> list[Published]:
    rows = []
    for network, (title, error, sparse) in NETWORKS.items():
        rows.append(Published(f"{title}, original", f"original_{network}", "error", error))
        rows += [Published(f"{title}, sparse VD", f"sparse_{network}", *number) for number in sparse.items()]
    return rows


table("sparse", "Sparse variational dropout on MNIST", lines())
