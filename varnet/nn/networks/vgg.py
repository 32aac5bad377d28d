"""VGG-like (Zagoruyko, 2015): conv1 .. conv13, dense1 512, dense2 (section 6.1).

Blocks of 3x3 convolutions with dropout between them, each block ending in a pool.
"""

from varnet.nn.networks.builder import Builder
from varnet.nn.networks.registry import network

BLOCKS = ((64, (0.3,)), (128, (0.4,)), (256, (0.4, 0.4)), (512, (0.4, 0.4)), (512, (0, 0)))  # channels, dropout
VARIATIONAL = ("conv11", "conv12", "conv13", "dense1")


@network(layers=VARIATIONAL, batch_norm=True, dropout=True, log_alpha=-10.0, image=32)
def vgg(b: Builder, classes: int) -> None:
    for channels, dropouts in BLOCKS:
        for p in dropouts:
            b.conv(channels, 3, padding=1)
            b.dropout(p)
        b.conv(channels, 3, padding=1, pool=True)
    b.dropout(0.5)
    b.dense(512)
    b.dropout(0.5)
    b.classifier(classes)
