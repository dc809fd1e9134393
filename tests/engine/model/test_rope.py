"""Law 1: a moved key equals a key rotated there in the first place."""

import pytest
import torch
from torch.testing import assert_close

from engine.model.rope import move_keys
from tests.support import tiny
from tests.support.tolerance import EXACT, REORDERED, rotated

INV_FREQ = 10_000.0 ** -(torch.arange(0, 32, 2) / 32)


def rotated_at(plain, start):
    """The definition as a complex product in fp64, sharing no code with rotary.py."""
    angle = (start + torch.arange(plain.shape[-2])).double()[:, None] * INV_FREQ.double()
    turned = torch.complex(*plain.double().chunk(2, dim=-1)) * torch.exp(1j * angle)
    return torch.cat((turned.real, turned.imag), dim=-1).to(plain.dtype)


@pytest.fixture
def plain():
    return torch.randn(2, 3, 6, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("start, goal", [(0, 0), (0, 700), (900, 40), (0, 40_000), (40_000, 39_999)])
def test_a_moved_key_equals_a_key_rotated_at_its_new_place(plain, start, goal):
    moved = move_keys(rotated_at(plain, start), goal - start, INV_FREQ)
    assert_close(moved, rotated_at(plain, goal), **rotated(max(start, goal)))


def test_every_token_can_go_its_own_way(plain):
    shifts = torch.tensor([0, -3, 700])[:, None, None, None]
    moved = move_keys(plain, shifts, INV_FREQ)
    for one, shift in zip(moved, (0, -3, 700), strict=True):
        assert_close(one, move_keys(plain, shift, INV_FREQ), **REORDERED)


def test_moves_add_up(plain):
    twice = move_keys(move_keys(plain, 5, INV_FREQ), -12, INV_FREQ)
    assert_close(twice, move_keys(plain, -7, INV_FREQ), **REORDERED)


def test_a_key_that_stays_is_copied_bit_for_bit(plain):
    half = plain.bfloat16()
    assert_close(move_keys(half, 0, INV_FREQ), half, **EXACT)


def test_moving_writes_into_a_given_place(plain):
    buffer = torch.zeros(2, 3, 10, 32)
    move_keys(plain, 9, INV_FREQ, out=buffer[:, :, 2:8])
    assert_close(buffer[:, :, 2:8], move_keys(plain, 9, INV_FREQ), **EXACT)
    assert not buffer[:, :, :2].any() and not buffer[:, :, 8:].any()


def test_wrong_width_is_refused_with_both_numbers(plain):
    with pytest.raises(ValueError, match=r"width 32.*width 30"):
        move_keys(plain, 1, INV_FREQ[:-1])


@pytest.mark.parametrize("shift", [1, 300])
def test_keys_of_every_family_move_as_the_model_itself_would_place_them(family, shift):
    """Layer 0 of transformers' own forward pass at shifted positions is the reference."""
    ids = torch.arange(3, 20)[None]
    reference = tiny.model(family)
    with torch.no_grad():
        here = reference(ids, use_cache=True).past_key_values.layers[0].keys
        there = reference(ids, position_ids=torch.arange(shift, shift + 17)[None], use_cache=True)
    moved = move_keys(here, shift, reference.model.rotary_emb.inv_freq)
    assert_close(moved, there.past_key_values.layers[0].keys, **rotated(shift, here.norm(dim=-1).max()))
