"""Batches: every image once, in a reproducible order, resumable, shared by ranks, converted as torchvision would."""

import pytest
import torch
from torchvision import transforms as T

from varnet.data import Loader, load
from varnet.errors import ConfigError, DataError, shown

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def numbered(count, channels=3, side=8):
    """Random images whose label is their number, so that a batch tells which images it holds."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (count, side, side, channels), dtype=torch.uint8, generator=generator)
    return x.permute(0, 3, 1, 2), torch.arange(count)


def loader(count=23, batch_size=5, **options):
    return Loader(*numbered(count), batch_size, **{"shuffle": True, "augment": True, **options})


def equal(first, second):
    return len(first) == len(second) and all(
        torch.equal(x, u) and torch.equal(y, v) for (x, y), (u, v) in zip(first, second, strict=True)
    )


def test_an_epoch_holds_every_image_once_and_epochs_differ():
    batches = loader()
    orders = [torch.cat([y for _, y in batches]) for _ in range(3)]
    assert all(sorted(order.tolist()) == list(range(23)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 3
    assert [len(y) for _, y in batches] == [5, 5, 5, 5, 3] and len(batches) == 5


def test_without_shuffling_images_come_in_order():
    x, y = numbered(23)
    got = list(Loader(x, y, 10))
    assert torch.equal(torch.cat([y for _, y in got]), y)
    assert torch.equal(torch.cat([x for x, _ in got]), x.float() / 255)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("channels, mean, std", [(1, None, None), (3, MEAN, STD)])
def test_the_same_values_as_torchvisions_transforms(channels, mean, std, channels_last):
    x, y = numbered(6, channels)
    steps = [T.ToTensor()] + ([T.Normalize(mean, std)] if mean else [])
    wanted = torch.stack([T.Compose(steps)(image) for image in x.permute(0, 2, 3, 1).contiguous().numpy()])
    ((got, _),) = Loader(x, y, mean=mean, std=std, channels_last=channels_last)
    # (x - 255 mean) / (255 std) and (x / 255 - mean) / std round differently: a few units of the largest value, 3
    assert torch.allclose(got, wanted, rtol=0, atol=0 if mean is None else 8 * torch.finfo(torch.float32).eps * 3)
    format_ = torch.channels_last if channels_last else torch.contiguous_format
    assert got.is_contiguous(memory_format=format_) and got.dtype == torch.float32


def test_both_memory_formats_hold_the_same_values():
    both = [list(loader(mean=MEAN, std=STD, channels_last=last)) for last in (False, True)]
    assert equal(*both)


def test_the_dataset_is_not_copied():
    data = load("digits", channels=3, size=32)
    assert data.loader().x.data_ptr() == data.train_x.data_ptr()
    assert data.loader("test", channels_last=True).x.data_ptr() == data.test_x.data_ptr()


def test_points_pass_through():
    x, y = torch.randn(10, 2), torch.arange(10)
    got = torch.cat([x for x, _ in Loader(x, y, 4)])
    assert torch.equal(got, x)
    with pytest.raises(ConfigError, match="augment=false") as error:
        Loader(x, y, 4, augment=True)
    assert error.value.key == "augment"


def test_equal_seeds_give_equal_epochs():
    first, second, other = loader(seed=1), loader(seed=1), loader(seed=2)
    for _ in range(2):
        assert equal(list(first), list(second))
    assert not equal(list(loader(seed=1)), list(other))


def test_augmentation_does_not_depend_on_the_global_generator():
    torch.manual_seed(1)
    first = list(loader())
    torch.manual_seed(2)
    assert equal(first, list(loader()))


@pytest.mark.parametrize("epochs, batches", [(0, 0), (0, 2), (1, 0), (2, 4), (1, 5)])
def test_a_resumed_loader_goes_on_bit_for_bit(tmp_path, epochs, batches):
    whole = loader()
    wanted = [list(whole) for _ in range(4)]
    stopped = loader()
    for _ in range(epochs):
        list(stopped)
    running = iter(stopped)
    for _ in range(batches):
        next(running)
    torch.save(stopped.state_dict(), tmp_path / "state.pt")
    resumed = loader(seed=99)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert equal(list(resumed), wanted[epochs][batches:])
    assert equal(list(resumed), wanted[epochs + 1])


def test_a_state_taken_between_epochs_starts_the_next_one():
    first, second = loader(), loader(seed=9)
    list(first)
    second.load_state_dict(first.state_dict())
    assert equal(list(first), list(second))


def test_leaving_an_epoch_early_starts_a_new_one_and_can_still_be_resumed():
    whole = loader()
    next(iter(whole))
    assert whole.state_dict()["done"] == 1
    later = loader(seed=9)
    running = iter(whole)
    next(running), next(running)
    later.load_state_dict(whole.state_dict())
    assert equal(list(later), list(running))
    assert len(list(whole)) == 5


def test_alternating_flips_show_both_sides_of_every_image_in_two_epochs():
    """Images whose left half is dark and right half light: a crop of four pixels leaves no doubt about the side."""
    x, y = torch.zeros(40, 1, 32, 32, dtype=torch.uint8), torch.arange(40)
    x[..., 16:] = 255
    batches = Loader(x, y, 16, shuffle=True, augment="alternating")

    def flipped():
        found = {int(label): bool(image[..., :8].sum() > image[..., -8:].sum()) for x, y in batches for image, label in
                 zip(x, y, strict=True)}  # fmt: skip
        return [found[label] for label in range(40)]

    first, second, third = flipped(), flipped(), flipped()
    assert 5 < sum(first) < 35 and second == [not side for side in first] and third == first
    again = Loader(x, y, 16, shuffle=True, augment="alternating")
    again.load_state_dict(batches.state_dict())
    assert equal(list(again), list(batches))


def test_a_state_of_another_run_is_refused():
    state = loader().state_dict()
    with pytest.raises(DataError, match=r"batch_size=6 differs from the 5"):
        loader(batch_size=6).load_state_dict(state)
    with pytest.raises(DataError, match=r"size=30 differs from the 23"):
        loader(30).load_state_dict(state)


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("count, batch_size", [(24, 8), (23, 8), (100, 7), (16, 16), (4, 16)])
def test_ranks_share_the_batches_of_a_single_process(world_size, count, batch_size):
    """Equal numbers of batches, no image lost or seen twice, the same order and the same crops."""
    ranks = [loader(count, batch_size, rank=rank, world_size=world_size) for rank in range(world_size)]
    for _ in range(2):
        parts = [list(rank) for rank in ranks]
        assert len({len(part) for part in parts}) == 1
        assert all(len(y) >= 1 for part in parts for _, y in part)
        joined = [tuple(torch.cat(pieces) for pieces in zip(*step, strict=True)) for step in zip(*parts, strict=True)]
        assert sorted(torch.cat([y for _, y in joined]).tolist()) == list(range(count))
    single = loader(count, batch_size)
    epochs = [list(single) for _ in range(2)]
    together = [torch.cat([batch[i] for batch in epochs[1]]) for i in (0, 1)]
    assert all(torch.equal(torch.cat([batch[i] for batch in joined]), together[i]) for i in (0, 1))
    if count % batch_size == 0 or count % batch_size >= 2 * world_size:
        assert equal(joined, epochs[1])


@pytest.mark.parametrize("count, world_size, sizes", [(21, 1, [10, 11]), (22, 1, [10, 10, 2]), (23, 2, [10, 13])])
def test_a_last_batch_too_small_for_batch_norm_joins_the_one_before(count, world_size, sizes):
    parts = [loader(count, 10, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert [sum(len(y) for _, y in step) for step in zip(*parts, strict=True)] == sizes


def test_bad_sizes_get_one_sentence():
    x, y = numbered(8)
    for batch_size in (0, -1, 2.5, True, 3):
        with pytest.raises(ConfigError, match="whole number from 4") as error:
            Loader(x, y, batch_size, rank=0, world_size=4)
        assert error.value.key == "batch_size" and shown(batch_size) in str(error.value)
    with pytest.raises(DataError, match="8 images come with 7 labels"):
        Loader(x, y[:7], 4)
    with pytest.raises(DataError, match="8 images are too few for 9 processes"):
        Loader(x, y, 16, rank=0, world_size=9)
