#!/usr/bin/env bash
# restore
