"""Server-sent events, however the wire cuts them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from afterturn_server.events import EventReader

TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20).map(str.strip)


@given(st.lists(TEXT, max_size=6), st.lists(st.integers(0, 400), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_events_are_whole_wherever_the_wire_cuts(texts, cuts, newline):
    raw = "".join(f": comment{newline}{newline}data: {text}{newline}{newline}" for text in texts).encode()
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    reader = EventReader()
    found = []
    for start, end in pairwise(places):
        found += reader.feed(raw[start:end])
    assert found == [text.encode() for text in texts]


def test_other_fields_are_dropped_and_lines_of_data_joined():
    assert list(EventReader().feed(b"event: x\ndata: a\ndata: b\nid: 3\n\n")) == [b"a\nb"]
