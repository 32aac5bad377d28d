"""LeNet-5-Caffe: conv1 20, conv2 50, dense1 500, dense2 (Table 1, section 6.1)."""

from varnet.nn.networks.builder import Builder
from varnet.nn.networks.registry import network


@network(layers=("dense1",), bias=False, batch_norm=("conv1", "conv2", "dense1"), image=16)
def lenet5(b: Builder, classes: int) -> None:
    b.conv(20, 5, pool=True)
    b.conv(50, 5, pool=True)
    b.dropout(0.5)
    b.dense(500)
    b.dropout(0.5)
    b.classifier(classes)
