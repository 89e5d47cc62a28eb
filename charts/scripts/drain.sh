#!/usr/bin/env bash
# drain
