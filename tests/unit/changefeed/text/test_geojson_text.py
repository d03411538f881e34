"""Shapes as GeoJSON: member order, number forms, empty shapes, and what has no form."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from tests.conformance.shape_literals import geography_of, geometry_of
from tests.unit.rows.shapes import GEOGRAPHY_POINT, GEOMETRY_POINT, ewkb
from tidegate.changefeed.text.geojson_text import geojson_text
from tidegate.errors import RowError
from tidegate.rows.ewkb import Shape, ShapeType, write_ewkb


@pytest.mark.parametrize(
    ("wkt", "text"),
    [
        ("POINT(1.0 1.0)", '{"coordinates": [1, 1], "type": "Point"}'),
        ("SRID=4326;POINT(-73.98 40.75)", '{"coordinates": [-73.98, 40.75], "type": "Point"}'),
        ("POINT Z (1 2 3)", '{"coordinates": [1, 2, 3], "type": "Point"}'),
        ("POINT(1 2 3)", '{"coordinates": [1, 2, 3], "type": "Point"}'),
        ("POINT M (1 2 3)", '{"coordinates": [1, 2, 3], "type": "Point"}'),
        ("POINT ZM (1 2 3 4)", '{"coordinates": [1, 2, 3, 4], "type": "Point"}'),
        ("POINT EMPTY", '{"coordinates": [], "type": "Point"}'),
        ("LINESTRING(0 0, 10 100)", '{"coordinates": [[0, 0], [10, 100]], "type": "LineString"}'),
        ("LINESTRING EMPTY", '{"coordinates": [], "type": "LineString"}'),
        (
            "POLYGON((0 0, 1 0, 1 1, 0 0), (0.1 0.1, 0.2 0.1, 0.1 0.1))",
            '{"coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]], [[0.1, 0.1], [0.2, 0.1], [0.1, 0.1]]], '
            '"type": "Polygon"}',
        ),
        ("MULTIPOINT((1 2), 3 4)", '{"coordinates": [[1, 2], [3, 4]], "type": "MultiPoint"}'),
        (
            "MULTILINESTRING((0 0, 1 1), EMPTY)",
            '{"coordinates": [[[0, 0], [1, 1]], []], "type": "MultiLineString"}',
        ),
        (
            "MULTIPOLYGON(((0 0, 1 0, 0 0)))",
            '{"coordinates": [[[[0, 0], [1, 0], [0, 0]]]], "type": "MultiPolygon"}',
        ),
        (
            "GEOMETRYCOLLECTION(POINT(1 2), GEOMETRYCOLLECTION(LINESTRING EMPTY))",
            '{"geometries": [{"coordinates": [1, 2], "type": "Point"}, {"geometries": '
            '[{"coordinates": [], "type": "LineString"}], "type": "GeometryCollection"}], '
            '"type": "GeometryCollection"}',
        ),
        ("GEOMETRYCOLLECTION EMPTY", '{"geometries": [], "type": "GeometryCollection"}'),
        # Nine decimals, then the number form of any JSON.
        ("POINT(0.1234567894 0.1234567895)", '{"coordinates": [0.123456789, 0.123456789], "type": "Point"}'),
        ("POINT(0.0000005 0.000001)", '{"coordinates": [5E-7, 0.000001], "type": "Point"}'),
        ("POINT(0.0000000004 1e21)", '{"coordinates": [0, 1000000000000000000000], "type": "Point"}'),
    ],
)
def test_a_shape_has_this_text(wkt: str, text: str) -> None:
    assert geojson_text(geometry_of(wkt)) == text
    assert geojson_text(geography_of(wkt)) == text


def test_the_literals_of_the_source_have_its_bytes() -> None:
    assert geometry_of("POINT(1.0 1.0)").hex() == GEOMETRY_POINT
    assert geography_of("POINT(1.0 1.0)").hex() == GEOGRAPHY_POINT
    assert geography_of(GEOGRAPHY_POINT.upper()).hex() == GEOGRAPHY_POINT


@given(shape=ewkb())
def test_every_shape_has_a_text_that_a_json_parser_reads(shape: bytes) -> None:
    assert json.loads(geojson_text(shape)).keys() <= {"coordinates", "geometries", "type"}


@pytest.mark.parametrize("coordinate", [math.nan, math.inf, -math.inf])
def test_a_coordinate_that_json_has_no_number_for_fails_the_feed(coordinate: float) -> None:
    shape = write_ewkb(Shape(ShapeType.POINT, (1.0, coordinate)))
    with pytest.raises(RowError, match="which GeoJSON cannot hold; the feed fails"):
        geojson_text(shape)


def test_bytes_that_are_no_shape_fail_the_feed() -> None:
    with pytest.raises(RowError, match="no byte order"):
        geojson_text(b"shape")
