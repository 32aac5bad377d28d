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


OTHERS = {  # other methods of the lectures' table, which we do not run: error and compression
    "lenet300": {"pruning": (1.59, 12.0), "dynamic network surgery": (1.99, 56.0), "soft weight sharing": (1.94, 23.0)},
    "lenet5": {"pruning": (0.77, 12.0), "dynamic network surgery": (0.91, 111.0), "soft weight sharing": (0.97, 200.0)},
}


def lines() -> list[Published]:
    rows = []
    for network, (title, error, sparse) in NETWORKS.items():
        rows.append(Published(f"{title}, original", f"original_{network}", "error", error))
        for label, ending in (("sparse VD", ""), ("sparse VD, authors' schedule", "_authors")):
            rows += [Published(f"{title}, {label}", f"sparse_{network}{ending}", *number) for number in sparse.items()]
    for network, methods in OTHERS.items():
        for method, values in methods.items():
            title = f"{NETWORKS[network][0]}, {method}"
            rows += [Published(title, None, *each) for each in zip(("error", "compression"), values, strict=True)]
    return rows


table("sparse", "Sparse variational dropout on MNIST", lines())
