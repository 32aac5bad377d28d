"""Networks of a user's own, as text: tests write it into the current folder, where model.target finds it."""

NETWORKS = """
import functools
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, in_shape, classes, hidden=6, dropout=0.2):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_shape[0], 4, 5, stride=3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, hidden, 3), nn.ReLU()
        )
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(hidden * 6 * 6, classes)

    def forward(self, x):
        if x.shape[-1] != 28:  # what only a look at values can decide
            raise ValueError("images of 28 x 28 only")
        return self.head(self.drop(self.features(x).view(len(x), -1)))


def build(in_shape, classes, **options):
    return Net(in_shape, classes, **options)


def sequential(in_shape, classes, hidden=6):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def lazy(in_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(classes))


def unknown(in_shape, classes):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.zeros(784, classes))

        def forward(self, x):
            return x.flatten(1) @ self.table

    return Table()


def one_layer(in_shape, classes):
    return nn.Linear(in_shape[0], classes)


def no_module(in_shape, classes):
    return 5


def empty(in_shape, classes):
    return nn.Flatten()


def wrong_shape(in_shape, classes):
    return sequential(in_shape, classes + 1)


def two_outputs(in_shape, classes):
    class Auxiliary(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = sequential(in_shape, classes)

        def forward(self, x):
            return (self.net(x), self.net(x)) if self.training else self.net(x)

    return Auxiliary()


def fails(in_shape, classes):
    return {}["nothing"]


def for_other_images(in_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(100, classes))


@functools.cache
def the_same_twice(in_shape, classes):
    import varnet

    return varnet.variational(sequential(in_shape, classes))


def normed(in_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(784, classes)))


five = 5
"""
