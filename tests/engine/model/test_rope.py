"""Invariant 1: a re-rotated key equals a key rotated at its new position in the first place."""

import pytest
import torch
from torch.testing import assert_close

from engine.model.rope import rerotate_keys
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED, rotation_tolerance

INV_FREQ = 10_000.0 ** -(torch.arange(0, 32, 2) / 32)


def rotated_at(plain, start):
    """The definition as a complex product in fp64, sharing no code with engine.model.rope."""
    angle = (start + torch.arange(plain.shape[-2])).double()[:, None] * INV_FREQ.double()
    product = torch.complex(*plain.double().chunk(2, dim=-1)) * torch.exp(1j * angle)
    return torch.cat((product.real, product.imag), dim=-1).to(plain.dtype)


@pytest.fixture
def plain():
    return torch.randn(2, 3, 6, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("start, goal", [(0, 0), (0, 700), (900, 40), (0, 40_000), (40_000, 39_999)])
def test_a_moved_key_equals_a_key_rotated_at_its_new_position(plain, start, goal):
    moved = rerotate_keys(rotated_at(plain, start), goal - start, INV_FREQ)
    assert_close(moved, rotated_at(plain, goal), **rotation_tolerance(max(start, goal)))


def test_every_token_can_have_its_own_shift(plain):
    shifts = torch.tensor([0, -3, 700])[:, None, None, None]
    moved = rerotate_keys(plain, shifts, INV_FREQ)
    for one, shift in zip(moved, (0, -3, 700), strict=True):
        assert_close(one, rerotate_keys(plain, shift, INV_FREQ), **REORDERED)


def test_moves_add_up(plain):
    twice = rerotate_keys(rerotate_keys(plain, 5, INV_FREQ), -12, INV_FREQ)
    assert_close(twice, rerotate_keys(plain, -7, INV_FREQ), **REORDERED)


def test_a_zero_shift_copies_bit_for_bit(plain):
    half = plain.bfloat16()
    assert_close(rerotate_keys(half, 0, INV_FREQ, out=torch.empty_like(half)), half, **EXACT)
    assert_close(rerotate_keys(half, 0, INV_FREQ), half, **EXACT)


def test_keys_are_written_into_the_given_output(plain):
    buffer = torch.zeros(2, 3, 10, 32)
    rerotate_keys(plain, 9, INV_FREQ, out=buffer[:, :, 2:8])
    assert_close(buffer[:, :, 2:8], rerotate_keys(plain, 9, INV_FREQ), **EXACT)
    assert not buffer[:, :, :2].any() and not buffer[:, :, 8:].any()


@pytest.mark.parametrize("shift", [1, 300])
def test_moved_keys_of_every_family_equal_the_models_own(family, shift):
    """Layer 0 of transformers' own forward pass at shifted positions is the reference."""
    ids = torch.arange(3, 20)[None]
    reference = tiny.model(family)
    with torch.no_grad():
        here = reference(ids, use_cache=True).past_key_values.layers[0].keys
        there = reference(ids, position_ids=torch.arange(shift, shift + 17)[None], use_cache=True)
    moved = rerotate_keys(here, shift, reference.model.rotary_emb.inv_freq)
    assert_close(moved, there.past_key_values.layers[0].keys, **rotation_tolerance(shift, here.norm(dim=-1).max()))
