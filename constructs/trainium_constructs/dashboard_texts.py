"""What the text widgets of the dashboards say."""

from __future__ import annotations

FIRST = """# Does speculative decoding pay?
**Speed-up** is the baseline's median time per output token divided by the variant's: above 1 it pays, where \
**parity** is 100 %. Numbers
are over the time range chosen above, lines over its hours with runs. These are medians without intervals: \
`specdec report` decides."""

HOW_TO_READ = """## By test case
**Speed-up** is the median time per output token (TPOT) of the baseline divided by the variant's, per test \
case, over the time range
chosen above: 1 is no gain, 3 is three times faster, below 1 speculation slows the service down.
It counts only where **parity** is 100 %: at temperature 0 both services must give the same text.
Both need the same prompts in the time range, so choose a range that holds whole runs.

A chart without bars has no data: nothing was measured, which is not zero. Medians here treat all requests \
alike; the run's report
pairs requests by prompt, gives intervals, and is what a decision should rest on: `specdec report`.
**Requests by outcome** shows what the medians leave out: a variant whose requests fail can look fast."""

EXACT = """## Exact lane
Token-exact times from the stream: a chunk of several tokens counts as several. **Step gap** is the pause \
between chunks that a
reader sees; under speculation it grows while TPOT falls. **Tokens per step** is 1 for a baseline; more \
means accepted draft tokens."""

LLMPERF = """## LLMPerf lane, names as published
For comparison with published figures only. **InterTokenLatency** is the time of the last event divided by \
the number of stream
*events*, time to first token included: a speculative server sends several tokens per event, so it can rise \
while decoding gets faster.
**OutputTokens** and **RequestOutputThroughput** count with a Llama tokenizer, not with the model's. \
**InputTokens** is the
length asked for. **TimePerOutputToken** and **TokensPerStep** are derived from LLMPerf's own records and \
can be compared between variants.
These series carry no experiment name: two experiments in one region and account share them."""

NEURON = """## Neuron devices
From Container Insights, one value per node and core. Series per pod stay empty where devices are handed \
out by Dynamic Resource
Allocation, since the agent attributes devices to pods by device-plugin names. So read utilization by \
**device group**: each service holds
one group of neighbouring devices; `kubectl get resourceclaims -n specdec -o wide` and the claim's status \
say which service holds which.
The monitor reports only while a Neuron process runs. Corrected memory events are counted together with \
uncorrected ones."""

SERVICES = """## Services
A service is ready once its model is loaded, which on a first start includes compiling for tens of minutes. \
Requests as the client
saw them, failures included, are on the experiment's dashboard."""


def nodes(system_nodes: int, usd_per_hour: float | None) -> str:
    """The text above the node charts.

    Args:
        system_nodes: nodes that are not accelerator nodes.
        usd_per_hour: price of an accelerator node, or None.
    """
    price = (
        f"Spend is their number times {usd_per_hour:g} USD an hour, summed over the time range shown. It"
        " starts when a node joins the cluster: minutes after billing does. A Capacity Block is paid for in"
        " advance, used or not."
        if usd_per_hour is not None
        else "Set `cost.node_usd_per_hour` in the experiment file to see what they cost."
    )
    plural = "node" if system_nodes == 1 else "nodes"
    return f"""## Nodes and money
Container Insights counts all nodes of the cluster; accelerator nodes are those beyond {system_nodes} \
system {plural}.
{price}
The bill itself: Cost Explorer, by the tags of this stack."""
