"""Table 2: binary dropout and variance networks, LeNet-5 on MNIST and VGG-like on CIFAR-10 and CIFAR-100."""

from varnet.paper.targets import table
from varnet.report.tables import Published

METRICS = {  # -> place of the published number: the caption says "one sample of the weights", not for how many objects
    "acc_1_weights": 0, "acc_1": 0, "acc_det": 1, "acc_k": 2,
}  # fmt: skip
PAPER = {
    "LeNet-5, MNIST, dropout": ("table2_mnist_dropout_authors", 99.1, 99.4, 99.4),
    "LeNet-5, MNIST, dropout, batch norm and L2": ("table2_mnist_dropout", 99.1, 99.4, 99.4),  # ours
    "LeNet-5, MNIST, variance": ("table2_mnist_variance", 98.2, 11.3, 99.3),
    "VGG-like, CIFAR-10, dropout": ("table2_cifar10_dropout", 91.0, 93.1, 93.4),
    "VGG-like, CIFAR-10, dropout, half of the rates": ("table2_cifar10_dropout_weak", 91.0, 93.1, 93.4),
    "VGG-like, CIFAR-10, variance": ("table2_cifar10_variance", 91.3, 10.0, 93.4),
    "VGG-like, CIFAR-100 coarse, dropout": ("table2_cifar100_dropout", 77.5, 79.8, 81.7),
    "VGG-like, CIFAR-100 coarse, variance": ("table2_cifar100_variance", 76.9, 5.0, 82.2),
    "VGG-like, CIFAR-100 fine, dropout": ("table2_cifar100_fine_dropout", None, None, None),
    "VGG-like, CIFAR-100 fine, variance": ("table2_cifar100_fine_variance", None, None, None),
}

table(
    "table2",
    "Table 2: dropout and variance networks",
    [
        Published(name, experiment, metric, values[place])
        for name, (experiment, *values) in PAPER.items()
        for metric, place in METRICS.items()
    ],
)
