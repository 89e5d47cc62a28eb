#!/usr/bin/env bash
# ready
