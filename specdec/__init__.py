"""The domain: measures speculative decoding and judges it. Runs at synth, in the pod and on a laptop; imports
neither CDK nor cdk8s.
"""

__version__ = "0.2.0"
"""Of this package: the wheel's, and that of every run's manifest and report. The pod runs this source without
an installed package, so the version stands here and nowhere else.
"""
