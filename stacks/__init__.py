"""Composes constructs and charts into one CloudFormation stack per region."""
