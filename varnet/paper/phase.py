"""Where the phase transition of Figures 3 and 8 ends, for three priors."""

from varnet.paper.targets import table
from varnet.report.tables import Published

METRICS = {  # published: mean propagation is at chance
    "acc_det": 10.0, "acc_1": None, "acc_k": None, "acc_zero_mean_k": None, "log_alpha.conv13": None,
    "log_alpha.dense1": None,
}  # fmt: skip

table(
    "phase",
    "Figures 3 and 8: end of the phase transition, VGG-like on CIFAR-10",
    [
        Published(prior, f"phase_{prior}", metric, value)
        for prior in ("loguniform", "student", "ard")
        for metric, value in METRICS.items()
    ],
)
