"""Kubernetes objects of the experiment, one module per idea."""
