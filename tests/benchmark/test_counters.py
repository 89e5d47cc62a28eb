import pytest

from specdec.benchmark.counters import difference, parse

VLLM = """# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}
vllm:spec_decode_num_drafts_total{{engine="1",model_name="m"}} 0.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {draft}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {second}
vllm:spec_decode_num_drafts_created{{engine="0"}} 1.79e+09
vllm:generation_tokens_total{{engine="0"}} 900.0
"""


def page(drafts: float, draft: float, accepted: float, first: float, second: float) -> str:
    return VLLM.format(drafts=drafts, draft=draft, accepted=accepted, first=first, second=second)


def test_differences_of_vllm() -> None:
    before, after = parse(page(10, 20, 5, 4, 1)), parse(page(110, 220, 1.25e2, 84, 41))
    assert difference(before, after) == {
        "drafts": 100,
        "draft_tokens": 200,
        "accepted_tokens": 120,
        "accepted_per_position": [80, 40],
        "source": "vllm:spec_decode_*",
    }


def test_llama_cpp_has_the_same_counters_by_another_name() -> None:
    before = parse(
        "llamacpp:spec_decode_num_drafts_total 1\nllamacpp:spec_decode_num_accepted_tokens_total 2\n"
    )
    after = parse(
        "llamacpp:spec_decode_num_drafts_total 5\nllamacpp:spec_decode_num_accepted_tokens_total 9\n"
    )
    assert difference(before, after) == {
        "drafts": 4,
        "accepted_tokens": 7,
        "accepted_per_position": None,
        "source": "llamacpp:spec_decode_*",
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("vllm:generation_tokens_total 3\n", "vllm:generation_tokens_total 9\n"),
        (page(0, 0, 0, 0, 0), page(0, 0, 0, 0, 0)),
        (page(7, 7, 7, 7, 0), page(7, 7, 7, 7, 0)),
        (page(7, 7, 7, 7, 0), page(1, 1, 1, 1, 0)),
    ],
)
def test_what_is_not_reported_is_not_zero(before: str, after: str) -> None:
    assert difference(parse(before), parse(after)) is None


def test_labels_may_hold_what_ends_a_label() -> None:
    odd = 'vllm:spec_decode_num_drafts_total{model_name="a}b\\"c,position=\\"1"} 4\n'
    found = parse(odd)
    assert found is not None
    assert found.totals == {"drafts": 4.0}


@pytest.mark.parametrize(
    "page", ["<html>", "vllm:spec_decode_num_drafts_total", "x{y 1\n", "\x00{", "x 1 2 3\n"]
)
def test_a_page_that_is_no_metrics_page_reports_nothing(page: str) -> None:
    assert parse(page) is None
