"""Objects of one stack agree with each other; each message says which object, what is there, what was
expected.
"""

from pathlib import Path

import pytest

from tests.stack.agreements import AGREEMENTS, Deployed
from tests.stack.agreements_aws import AWS_AGREEMENTS
from tests.stack.agreements_pods import POD_AGREEMENTS
from tests.stack.synthesis import EVERYTHING, REGION, experiment, template

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLUGIN = (("[serving]", '[serving]\nallocation = "device-plugin"'),)
CLIENTS = (
    ("repeats = 2", "repeats = 2\nclients = 3"),
    ('lanes = ["exact", "llmperf"]', 'lanes = ["exact"]'),
)
ALL = {**AGREEMENTS, **POD_AGREEMENTS, **AWS_AGREEMENTS}
KEPT = (('zone = "us-east-2b"', 'bucket = "kept-bucket"\nzone = "us-east-2b"'),)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "edits",
    [(), EVERYTHING, PLUGIN, KEPT, CLIENTS],
    ids=["default", "everything", "device-plugin", "kept-bucket", "clients"],
)
def test_objects_agree(edits: tuple[tuple[str, str], ...], name: str) -> None:
    found = ALL[name](Deployed(template(*edits), experiment(*edits), REGION))
    sentences = [f"{place} is {there!r}, expected {expected!r}" for place, there, expected in found]
    assert not sentences, "\n".join(sentences)
