#!/usr/bin/env bash
# artifact
