#!/usr/bin/env bash
# keep
