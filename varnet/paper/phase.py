"""Where the phase transition of Figures 3 and 8 ends, for three priors."""

from varnet.paper.targets import table
from varnet.report.tables import Published

METRICS = {  # published: mean propagation is at chance
    "acc_det": 10.0, "acc_1": None, "acc_k": None, "acc_zero_mean_k": None, "log_alpha.conv13": None,
    "log_alpha.dense1": None,
}  # fmt: skip

PRIORS = ("loguniform", "student", "ard")
ROWS = {  # label -> experiment; the controls are there at width 0.5 alone
    "loguniform": "phase_loguniform", "student": "phase_student", "ard": "phase_ard",
    "loguniform, beta = 1": "phase_loguniform_beta1",
    "loguniform, no rate of its own for log alpha": "phase_loguniform_lr1",
    "loguniform, beta = 1 and no rate of its own": "phase_loguniform_control",
}  # fmt: skip

table(
    "phase",
    "Figures 3 and 8: end of the phase transition, VGG-like on CIFAR-10",
    [
        Published(label, experiment, metric, value if label in PRIORS else None)
        for label, experiment in ROWS.items()
        for metric, value in METRICS.items()
    ],
)
