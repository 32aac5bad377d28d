"""Batch norm over the batch of the whole run when several processes hold parts of it, on any device.

Each rank sends count, mean and sum of squared deviations of its part; the pooled mean and variance follow from them
without cancellation, and gradients flow back through the exchange. In evaluation it is nn.BatchNorm.
"""

import torch
from torch import Tensor, nn

from varnet.base import distributed


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    def _check_input_dim(self, x: Tensor) -> None:
        pass  # of any number of dimensions

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        values = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        mean, variance, count = pooled(values)
        self._remember(mean, variance, count)
        shape = (1, -1, *[1] * (x.dim() - 2))
        scale = torch.rsqrt(variance + self.eps)
        scale = scale if self.weight is None else self.weight * scale
        shift = -mean * scale if self.bias is None else self.bias - mean * scale
        return torch.addcmul(shift.view(shape), values, scale.view(shape)).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        self.num_batches_tracked += 1
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance * count / (count - 1), self.momentum)


def pooled(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of every channel, and the number of values, over all ranks."""
    dims = [0, *range(2, x.dim())]
    variance, mean = torch.var_mean(x, dims, correction=0)
    count = x.new_full((1,), x.numel() / x.shape[1])
    table = Exchange.apply(torch.cat([mean, variance, count]))  # (ranks, 2 channels + 1)
    means, variances, counts = table.split([len(mean), len(mean), 1], 1)
    weights = counts / counts.sum()
    mean = (weights * means).sum(0)
    return mean, (weights * (variances + (means - mean).square())).sum(0), counts.sum()


class Exchange(torch.autograd.Function):
    """A row of every rank -> the table of all. The loss is the sum of the ranks' losses, and so is its gradient."""

    @staticmethod
    def forward(ctx, row: Tensor) -> Tensor:
        table = row.new_zeros(distributed.world_size(), len(row))
        table[distributed.rank()] = row
        return distributed.summed(table)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return distributed.summed(gradient.clone())[distributed.rank()]


def pool_batch_norm(model: nn.Module) -> nn.Module:
    """Replace the batch norms of a model, which keep their parameters and statistics; nothing to do for one process."""
    if distributed.active():
        for name, module in model.named_children():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                model.add_module(name, _adopted(module))
            else:
                pool_batch_norm(module)
    return model


def _adopted(module: nn.Module) -> BatchNorm:
    norm = BatchNorm(module.num_features, module.eps, module.momentum, affine=module.affine)
    norm.weight, norm.bias = module.weight, module.bias
    norm.running_mean, norm.running_var = module.running_mean, module.running_var
    norm.num_batches_tracked = module.num_batches_tracked
    return norm.train(module.training)
