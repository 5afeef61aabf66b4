"""Edges of a large flow for which graphviz finds no way are drawn as straight lines."""

from __future__ import annotations

from random import Random

import agf_magics as agf
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.layout.graphviz import read_edges
from tests.pictures.random_flows import LANGUAGES, text_of


def test_an_edge_without_a_way_has_no_curve() -> None:
    answer = {"bb": "0,0,100,50", "edges": [{"id": "e0"}, {"id": "e1", "pos": "e,9,10 1,2 3,4 5,6 7,8"}]}
    (first, *_), (second, curve, _) = read_edges(answer)
    assert (first, second, len(curve)) == ("e0", "e1", 5)


def test_a_flow_with_such_an_edge_is_drawn() -> None:
    random = Random(7)
    texts = [
        (language, text_of(make(random, size)))
        for language, make in sorted(LANGUAGES.items())
        for size in (30, 100, 200, 300, 400, 480)
        for _ in range(3)
    ]
    pipelines = [text for language, text in texts if language == "pipeline"]
    assert "<svg" in Diagram(agf.load(pipelines[11])).svg()  # the third flow with 300 steps
