"""The published numbers, row by row, and the experiment that gives ours: Tables 1 to 3, sections 3.3 and 6.1, and the
lectures on sparse variational dropout."""

from typing import NamedTuple


class Row(NamedTuple):
    row: str  # as in the paper
    experiment: str  # configs/experiment/NAME.yaml; at the small scale small/NAME
    metric: str  # key of a run's metrics.json
    published: float | None
    poster: float | None = None  # the paper's poster prints an earlier run of Table 1


def _table1() -> list[Row]:
    metrics = ("elbo", "data_term", "kl", "acc_det", "acc_k")
    paper = {
        "zero_mean": (-4.0, -4.0, 0.0, 11.3, 99.4),
        "layer": (-17.4, -15.8, 1.7, 11.3, 99.2),
        "neuron": (-31.4, -17.0, 14.4, 11.3, 99.2),
        "weight": (-602.6, -33.8, 568.8, 96.6, 99.4),
        "additive": (-227.9, -31.2, 196.7, 99.2, 99.2),
    }
    poster = {
        "layer": (-9.4, -9.04, 0.36, 11.3, 99.3),
        "neuron": (-11.0, -8.34, 2.66, 11.3, 99.2),
        "weight": (-287.4, -21.13, 266.25, 96.6, 99.4),
        "additive": (-227.9, -31.2, 196.74, 99.2, 99.2),
    }
    return [
        Row(name, f"table1_{name}", metric, value, poster.get(name, (None,) * 5)[i])
        for name, values in paper.items()
        for i, (metric, value) in enumerate(zip(metrics, values, strict=True))
    ]


def _table2() -> list[Row]:
    paper = {
        "LeNet-5, MNIST, dropout": ("table2_mnist_dropout", 99.1, 99.4, 99.4),
        "LeNet-5, MNIST, variance": ("table2_mnist_variance", 98.2, 11.3, 99.3),
        "VGG-like, CIFAR-10, dropout": ("table2_cifar10_dropout", 91.0, 93.1, 93.4),
        "VGG-like, CIFAR-10, variance": ("table2_cifar10_variance", 91.3, 10.0, 93.4),
        "VGG-like, CIFAR-100 coarse, dropout": ("table2_cifar100_dropout", 77.5, 79.8, 81.7),
        "VGG-like, CIFAR-100 coarse, variance": ("table2_cifar100_variance", 76.9, 5.0, 82.2),
        "VGG-like, CIFAR-100 fine, dropout": ("table2_cifar100_fine_dropout", None, None, None),
        "VGG-like, CIFAR-100 fine, variance": ("table2_cifar100_fine_variance", None, None, None),
    }
    return [
        Row(name, experiment, metric, value)
        for name, (experiment, *values) in paper.items()
        for metric, value in zip(("acc_1", "acc_det", "acc_k"), values, strict=True)
    ]


def _table3() -> list[Row]:
    paper = {
        "all deterministic": ("table3_det", 99.4, 99.4),
        "conv2 variance": ("table3_conv2", 98.8, 99.4),
        "dense1 variance": ("table3_dense1", 98.8, 99.2),
        "conv2, dense1 variance": ("table3_conv2_dense1", 93.2, 97.5),
    }
    return [
        Row(name, experiment, metric, value)
        for name, (experiment, *values) in paper.items()
        for metric, value in zip(("acc_1", "acc_k"), values, strict=True)
    ]


def _phase() -> list[Row]:
    metrics = ("acc_det", "acc_1", "acc_k", "acc_zero_mean_k", "log_alpha.conv13", "log_alpha.dense1")
    return [
        Row(prior, f"phase_{prior}", metric, 10.0 if metric == "acc_det" else None)
        for prior in ("loguniform", "student", "ard")
        for metric in metrics
    ]


def _sparse() -> list[Row]:
    metrics = {"lenet300": ("dense1", "dense2", "dense3"), "lenet5": ("conv1", "conv2", "dense1", "dense2")}
    paper = {"lenet300": (1.92, 68, 98.9, 97.2, 62.0), "lenet5": (0.75, 280, 67, 98, 99.8, 95)}
    original, titles = {"lenet300": 1.64, "lenet5": 0.80}, {"lenet300": "LeNet-300-100", "lenet5": "LeNet-5"}
    rows = []
    for net, layers in metrics.items():
        rows.append(Row(f"{titles[net]}, original", f"original_{net}", "error", original[net]))
        names = ("error", "compression", *(f"sparsity.{layer}" for layer in layers))
        rows += [
            Row(f"{titles[net]}, sparse VD", f"sparse_{net}", metric, float(value))
            for metric, value in zip(names, paper[net], strict=True)
        ]
    return rows


def _random_labels() -> list[Row]:
    rows = []
    for data, title in (("mnist", "MNIST, fc"), ("cifar10", "CIFAR-10, VGG-like")):
        for method, train in (("dropout", 100.0), ("sparse_vd", 10.0)):
            name, label = f"random_labels_{data}_{method}", f"{title}, {method.replace('_', ' ')}"
            rows += [Row(label, name, "train_acc_det", train), Row(label, name, "acc_det", 10.0)]
            rows += [Row(label, name, "sparsity_all", 100.0)] if method == "sparse_vd" else []
    return rows


TABLES = {
    "table1": _table1(),
    "table2": _table2(),
    "table3": _table3(),
    "noise": [
        Row(noise, f"noise_{noise}", "acc_k", value)
        for noise, value in (("gaussian", 99.3), ("bernoulli", 98.7), ("uniform", 98.7))
    ],
    "phase": _phase(),
    "sparse": _sparse(),
    "random_labels": _random_labels(),
}
TITLES = {
    "table1": "Table 1: LeNet-5 on MNIST, dense1 variational: training-set ELBO and test accuracy",
    "table2": "Table 2: dropout and variance networks",
    "table3": "Table 3: LeNet-5 with tanh and no biases, variance layers",
    "noise": "Section 3.3: noise families of the variance layer, LeNet-5 on MNIST",
    "sparse": "Sparse variational dropout on MNIST",
    "random_labels": "Random labels: what memorises them and what does not",
    "phase": "Figures 3 and 8: end of the phase transition, VGG-like on CIFAR-10",
}
LAYERS = ("conv1", "conv2", "dense1", "dense2", "dense3")
METRICS = {
    "elbo": "ELBO", "data_term": "data term", "kl": "KL", "acc_det": "deterministic, %", "acc_1": "one sample, %",
    "acc_k": "20 samples, %", "acc_zero_mean_k": "zero-mean, 20 samples, %",
    "error": "error, %", "compression": "compression", "train_acc_det": "train accuracy, %",
    "sparsity_all": "sparsity, %", **{f"sparsity.{n}": f"sparsity of {n}, %" for n in LAYERS},
    "log_alpha.conv13": "log alpha, conv13", "log_alpha.dense1": "log alpha, dense1",
}  # fmt: skip
