"""Table 3: which layers of LeNet-5 with tanh and no biases may be variance layers."""

from varnet.paper.targets import table
from varnet.report.tables import Published

METRICS = ("acc_1", "acc_k")
PAPER = {
    "all deterministic": ("table3_det", 99.4, 99.4),
    "conv2 variance": ("table3_conv2", 98.8, 99.4),
    "dense1 variance": ("table3_dense1", 98.8, 99.2),
    "conv2, dense1 variance": ("table3_conv2_dense1", 93.2, 97.5),
}

table(
    "table3",
    "Table 3: LeNet-5 with tanh and no biases, variance layers",
    [
        Published(name, experiment, metric, value)
        for name, (experiment, *values) in PAPER.items()
        for metric, value in zip(METRICS, values, strict=True)
    ]
    # The authors' deterministic networks have dropout while they train (differences.md), and none in their predictions.
    + [Published("all deterministic, trained with dropout", "table3_det_dropout", "acc_det", 99.4)],
)
