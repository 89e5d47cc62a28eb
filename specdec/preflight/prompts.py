"""Whether the prompt set can show what it is asked to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec.preflight.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from specdec.preflight.finding import Scope


def prompts(scope: Scope) -> Iterator[Finding]:
    """Test cases with too few prompts would be measured and paid for, and stay undecided."""
    workload = scope.workload
    if workload.too_few is not None:
        yield Finding("prompts", "warning", workload.too_few, "docs/prompts.md, Add a test case")
    else:
        yield Finding("prompts", "ok", f"{workload.prompts} prompts in {workload.test_cases} test cases")
