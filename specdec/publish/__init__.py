"""Sends records to CloudWatch and S3, and reads them back."""
