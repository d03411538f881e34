"""EWKB: shapes come back, both byte orders are read, and damage is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.rows.shapes import GEOGRAPHY_POINT, GEOMETRY_POINT, shapes
from tidegate.errors import EncodingError
from tidegate.rows.ewkb import MAX_NESTING, Shape, ShapeType, read_ewkb, read_head, write_ewkb


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        (Shape(ShapeType.POINT, (1.0, 1.0)), GEOMETRY_POINT),
        (Shape(ShapeType.POINT, (1.0, 1.0), srid=4326), GEOGRAPHY_POINT),
        (Shape(ShapeType.POINT, ()), "0101000000000000000000f87f000000000000f87f"),
        (
            Shape(ShapeType.POINT, (1.0, 2.0, 3.0, 4.0), has_z=True, has_m=True),
            "01010000c0000000000000f03f000000000000004000000000000008400000000000001040",
        ),
        (Shape(ShapeType.GEOMETRYCOLLECTION, ()), "010700000000000000"),
        (
            Shape(ShapeType.MULTIPOINT, (Shape(ShapeType.POINT, (1.0, 1.0)),)),
            "010400000001000000" + GEOMETRY_POINT,
        ),
        (
            Shape(ShapeType.POLYGON, (((0.0, 0.0), (1.0, 0.0), (0.0, 0.0)),)),
            f"01030000000100000003000000{'00' * 16}{'000000000000f03f'}{'00' * 8}{'00' * 16}",
        ),
    ],
)
def test_a_shape_has_these_bytes(shape: Shape, data: str) -> None:
    assert write_ewkb(shape).hex() == data
    assert read_ewkb(bytes.fromhex(data)) == shape


@given(shape=shapes())
def test_a_shape_comes_back(shape: Shape) -> None:
    assert read_ewkb(write_ewkb(shape)) == shape


def test_big_endian_bytes_are_read_too() -> None:
    data = struct.pack(">BIIdd", 0, 0x20000001, 4326, 1.0, 2.0)
    assert read_ewkb(data) == Shape(ShapeType.POINT, (1.0, 2.0), srid=4326)


@given(shape=shapes())
def test_every_cut_is_refused(shape: Shape) -> None:
    data = write_ewkb(shape)
    for size in range(len(data)):
        with pytest.raises(EncodingError):
            read_ewkb(data[:size])


@given(noise=st.binary(max_size=60))
def test_noise_is_read_or_refused(noise: bytes) -> None:
    for read in (read_ewkb, read_head):
        try:
            read(noise)
        except EncodingError:
            continue


def collections(depth: int) -> bytes:
    return bytes.fromhex("010700000001000000") * depth + bytes.fromhex(GEOMETRY_POINT)


def test_collections_nest_as_deep_as_the_bound_and_no_deeper() -> None:
    assert read_ewkb(collections(MAX_NESTING)).type is ShapeType.GEOMETRYCOLLECTION
    for depth in (MAX_NESTING + 1, 100_000):
        with pytest.raises(EncodingError, match=f"more than {MAX_NESTING} collections"):
            read_ewkb(collections(depth))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "no byte order"),
        ("02" + GEOMETRY_POINT[2:], "no byte order at offset 0"),
        ("0109000000", "0x00000009 is no shape"),
        ("01e9030000" + GEOMETRY_POINT[10:], "0x000003e9 is no shape"),  # ISO's way to say Z
        (GEOMETRY_POINT + "00", "1 bytes follow"),
        ("0102000000ffffffff", "announces 4294967295 positions"),
        ("0103000000ffffffff", "announces 4294967295 parts"),
        ("0107000000ffffffff", "announces 4294967295 parts"),
        ("010500000001000000" + GEOMETRY_POINT, "a POINT in a MULTILINESTRING"),
        ("010400008001000000" + GEOMETRY_POINT, "or a part of other dimensions"),
    ],
)
def test_malformed_bytes_are_refused(data: str, said: str) -> None:
    with pytest.raises(EncodingError, match=said):
        read_ewkb(bytes.fromhex(data))
