#!/usr/bin/env bash
# stage
