#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs each script of a directory in a fresh directory with a time limit and frames its output:
#   run-each.sh DIRECTORY LIMIT_SECONDS
# It knows nothing about the scripts, and does not judge what they print.
directory=$(cd "$1" && pwd)
limit=$2
for script in "$directory"/*; do
    name=$(basename "$script")
    work=$(mktemp -d)
    echo "=== begin $name"
    (cd "$work" && exec timeout -k 5 "$limit" "$script" </dev/null 2>&1)
    echo "=== end $name $?"
    rm -rf "$work"
done
