"""Table 1: five parameterizations of LeNet-5's dense1 on MNIST."""

from varnet.paper.targets import table
from varnet.report.tables import Published

METRICS = ("elbo", "data_term", "kl", "acc_det", "acc_k")
PAPER = {
    "zero_mean": (-4.0, -4.0, 0.0, 11.3, 99.4),
    "layer": (-17.4, -15.8, 1.7, 11.3, 99.2),
    "neuron": (-31.4, -17.0, 14.4, 11.3, 99.2),
    "weight": (-602.6, -33.8, 568.8, 96.6, 99.4),
    "additive": (-227.9, -31.2, 196.7, 99.2, 99.2),
}
POSTER = {
    "layer": (-9.4, -9.04, 0.36, 11.3, 99.3),
    "neuron": (-11.0, -8.34, 2.66, 11.3, 99.2),
    "weight": (-287.4, -21.13, 266.25, 96.6, 99.4),
    "additive": (-227.9, -31.2, 196.74, 99.2, 99.2),
}

BESIDE = {
    "additive, from weights": ("table1_additive_from_weights", "additive")
}  # another start (docs/results/table1.md)

table(
    "table1",
    "Table 1: LeNet-5 on MNIST, dense1 variational: training-set ELBO and test accuracy",
    [
        Published(name, f"table1_{name}", metric, value, poster)
        for name, values in PAPER.items()
        for metric, value, poster in zip(METRICS, values, POSTER.get(name, (None,) * 5), strict=True)
    ]
    + [
        Published(title, experiment, metric, value)
        for title, (experiment, name) in BESIDE.items()
        for metric, value in zip(METRICS, PAPER[name], strict=True)
    ],
)

CIFAR10 = {"layer": -116.2, "neuron": -233.4, "weight": -1453.7, "zero_mean": None, "additive": None}  # the caption

table(
    "table1_cifar10",
    "Caption of Table 1: VGG-like on CIFAR-10: training-set ELBO and test accuracy",
    [
        Published(name, f"table1_cifar10_{name}", metric, elbo if metric == "elbo" else None)
        for name, elbo in CIFAR10.items()
        for metric in METRICS
    ],
)
