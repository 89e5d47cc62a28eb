#!/usr/bin/env bash
# serve
