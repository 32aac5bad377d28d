"""Section 3.3: the noise of a variance layer need not be Gaussian."""

from varnet.paper.targets import table
from varnet.report.tables import Published

PAPER = {"gaussian": 99.3, "bernoulli": 98.7, "uniform": 98.7}

table(
    "noise",
    "Section 3.3: noise families of the variance layer, LeNet-5 on MNIST",
    [Published(noise, f"noise_{noise}", "acc_k", value) for noise, value in PAPER.items()],
)
