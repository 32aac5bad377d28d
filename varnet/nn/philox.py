"""Normal numbers on a CPU, nearly four times as fast as torch.randn, compiled by numba; varnet.nn.noise calls this.

Philox-4x32-10 (Salmon et al. 2011) turns (key, counter) into random bits without a state, so that the loop below has no
dependency from one number to the next and runs in vector registers; Box and Muller turn the bits into normal numbers.
Logarithm, sine and cosine are the polynomials of Cephes for single precision. One pass both draws the noise and uses
it, because on a large activation every pass over the memory costs as much as the noise itself.
"""

from collections.abc import Callable

import numpy as np
from numba import float32, njit, uint32, uint64

OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}, "nogil": True}
LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
       2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip


class Compiled:
    """A function compiled at its first call and kept on disk for later ones, where numba finds a folder that it may
    write to. A cache that is damaged, or gone, or that cannot be written is made anew, or done without."""

    def __init__(self, function: Callable):
        self.function, self.mended = function, False
        try:
            self.call = njit(**OPTIONS, cache=True)(function)
        except RuntimeError:
            self.call = njit(**OPTIONS)(function)

    def __call__(self, *arguments):
        try:
            return self.call(*arguments)
        except Exception:  # what numba reads of a damaged file may be anything
            if self.mended:
                raise
        self.mended = True
        try:
            self.call.recompile()  # of nothing, which empties the cache
            return self.call(*arguments)
        except Exception:
            self.call = njit(**OPTIONS)(self.function)
            return self.call(*arguments)


@njit(inline="always")
def _log(u):
    """Of 0 < u <= 1."""
    bits = np.float32(u).view(np.int32)
    m = np.int32((bits & 0x7FFFFF) | 0x3F800000).view(np.float32)  # u = m 2^e, 1 <= m < 2
    e = float32((bits >> 23) - 127)
    large = m > float32(1.41421356)
    e = e + float32(1) if large else e
    f = (m * float32(0.5) if large else m) - float32(1)
    p = float32(LOG[0])
    for i in range(1, 9):
        p = p * f + float32(LOG[i])
    return p * f * f * f - float32(0.5) * f * f + f + e * float32(0.69314718)


@njit(inline="always")
def _pair(a, b):
    """Two independent normal numbers from two words of random bits: radius sqrt(-2 log u), and an angle."""
    u = float32(a) * float32(2.0**-32) + float32(2.0**-33)
    r = np.sqrt(max(float32(-2) * _log(u), float32(0)))
    t = (float32(b >> uint32(2)) * float32(2.0**-30) - float32(0.5)) * float32(1.5707963)  # -pi/4 to pi/4
    q = t * t
    s = ((float32(-1.9515295891e-4) * q + float32(8.3321608736e-3)) * q - float32(1.6666654611e-1)) * q * t + t
    c = ((float32(2.4433157e-5) * q - float32(1.3887316e-3)) * q + float32(4.1666646e-2)) * q * q
    c = c - float32(0.5) * q + float32(1)
    c = -c if b & uint32(1) else c  # the last two bits choose among the four quarters of the circle
    x = s if b & uint32(2) else c
    y = c if b & uint32(2) else s
    return r * x, r * y


@njit(inline="always")
def _four(key, counter):
    """Four independent normal numbers. The words of 32 bits are held in 64, which makes products simple."""
    low = uint64(0xFFFFFFFF)
    k0, k1 = key & low, key >> uint64(32)
    c0, c1, c2, c3 = counter & low, counter >> uint64(32), uint64(0), uint64(0)
    for _ in range(10):
        p0, p1 = uint64(0xD2511F53) * c0, uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> uint64(32)) ^ c1 ^ k0, p1 & low, (p0 >> uint64(32)) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + uint64(0x9E3779B9)) & low, (k1 + uint64(0xBB67AE85)) & low
    w, x = _pair(uint32(c0), uint32(c1))
    y, z = _pair(uint32(c2), uint32(c3))
    return w, x, y, z


# The four numbers of a counter go to the four quarters of the output, so that neighbours are written together.


@Compiled
def fill(out, key):
    """out = noise."""
    q = len(out) // 4
    for i in range(q):
        out[i], out[q + i], out[2 * q + i], out[3 * q + i] = _four(key, uint64(i))
    rest = _four(key, uint64(q))
    for i in range(4 * q, len(out)):
        out[i] = rest[i - 4 * q]


@Compiled
def shift(out, mean, variance, key):
    """out = mean + sqrt(variance) * noise; out may be the variance."""
    q = len(out) // 4
    for i in range(q):
        w, x, y, z = _four(key, uint64(i))
        out[i] = mean[i] + np.sqrt(variance[i]) * w
        out[q + i] = mean[q + i] + np.sqrt(variance[q + i]) * x
        out[2 * q + i] = mean[2 * q + i] + np.sqrt(variance[2 * q + i]) * y
        out[3 * q + i] = mean[3 * q + i] + np.sqrt(variance[3 * q + i]) * z
    rest = _four(key, uint64(q))
    for i in range(4 * q, len(out)):
        out[i] = mean[i] + np.sqrt(variance[i]) * rest[i - 4 * q]


@njit(inline="always")
def _step(out, variance, i, noise):
    ratio = noise / np.sqrt(variance[i])
    out[i] += variance[i] * ratio
    variance[i] = ratio


@Compiled
def perturb(out, variance, key):
    """out += sqrt(variance) * noise, and noise / sqrt(variance) in place of the variance: what the gradient needs."""
    q = len(out) // 4
    for i in range(q):
        w, x, y, z = _four(key, uint64(i))
        _step(out, variance, i, w)
        _step(out, variance, q + i, x)
        _step(out, variance, 2 * q + i, y)
        _step(out, variance, 3 * q + i, z)
    rest = _four(key, uint64(q))
    for i in range(4 * q, len(out)):
        _step(out, variance, i, rest[i - 4 * q])


def key(number: int) -> np.uint64:
    """The type of key that the functions above are compiled for."""
    return np.uint64(number)
