#!/usr/bin/env bash
# copies.sh WEFT [FILES [BYTES [REPEATS]]]: how fast a Linux client (uml) copies a tree of many small files
# into a cluster of four data servers and out of it, by `cp -r` on its mount and by `weft cp -r`; servers on
# this machine, their data in memory. Prints medians, their ratio, and the goal. Needs root.
set -eu -o pipefail
here=$(dirname "$(readlink -f "$0")")
weft=$1 files=${2:-10000} bytes=${3:-8192} repeats=${4:-3}
work=$(mktemp -d /dev/shm/weft-copies.XXXXXX)
server=''
trap '[ -z "$server" ] || { kill "$server"; wait; }; rm -rf "$work"' EXIT

printf '[export]\nroot_squash = false\nprivileged_ports = false\n' >"$work/mds.toml"
"$weft" up --json --listen 0.0.0.0:0 --dir "$work/cluster" --data-servers 4 --config "$work/mds.toml" \
  >"$work/endpoints" 2>"$work/servers.log" &
server=$!
until [ -s "$work/endpoints" ]; do
  kill -0 "$server" 2>/dev/null || { cat "$work/servers.log" >&2; exit 1; }
  sleep 0.1
done
port=$(sed -n 's/.*"mds":"[^"]*:\([0-9]*\)".*/\1/p' "$work/endpoints")
"$here/../kclient/kclient.sh" --kernel uml --net auto --mem 1800 --timeout 1800 --bin "$weft" \
  -- "$here/guest.sh" "$files" "$bytes" "$port" "$repeats" >"$work/figures" 2>"$work/guest.log" ||
  { tail -20 "$work/figures" "$work/guest.log" >&2; exit 1; }

of() { # WHAT: the least, the middle one and the most
  awk -v what="$1" '$1 == what { print $2 }' "$work/figures" | sort -n |
    awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)], v[1], v[NR] }'
}
echo "$files files of $bytes bytes, Linux 7.2 (uml) and four data servers on one machine; files/s, medians of $repeats (least to most)"
for way in in out; do
  read -r kernel kernel_least kernel_most <<<"$(of "kernel-$way")"
  read -r own own_least own_most <<<"$(of "own-$way")"
  ratio=$(awk -v a="$own" -v b="$kernel" 'BEGIN { printf "%.1f", a / b }')
  echo "$way: cp -r on the mount $kernel ($kernel_least to $kernel_most), weft cp -r $own ($own_least to $own_most): $ratio times; the goal is 5"
done
