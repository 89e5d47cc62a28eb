"""The domain: measures speculative decoding and judges it. Runs at synth, in the pod and on a laptop; imports
neither CDK nor cdk8s.
"""
