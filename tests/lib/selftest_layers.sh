#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check-layers accepts the sources, and finds an include that breaks each of these rules.
#
#     selftest_layers.sh SOURCE_TREE
set -euo pipefail

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/scripts"
cp "$1/scripts/check-layers" "$tree/scripts"
cp -r "$1/src" "$1/cli" "$tree"

fails() {
    echo "FAILED: $1"
    exit 1
}

"$tree/scripts/check-layers" || fails "the sources break a rule"

# The file may not include the header.
refused() {
    cp "$tree/src/$1" "$tree/before"
    echo "#include \"$2\"" >>"$tree/src/$1"
    "$tree/scripts/check-layers" >"$tree/output" && fails "$1 may include $2"
    grep -qF "src/$1:" "$tree/output" || fails "the output does not name $1"
    mv "$tree/before" "$tree/src/$1"
}

refused client/hold.c core/core_internal.h
refused client/scheduler.c core/lease.h
refused core/core.c client/client.h
refused core/entry.c store/redis/redis.h
refused store/memory/memory.c core/core.h
refused base/heap.c store/store.h
