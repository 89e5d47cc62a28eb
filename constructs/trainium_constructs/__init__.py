"""CDK constructs, one idea each."""
