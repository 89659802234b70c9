#!/usr/bin/env bash
# mounts.sh WEFT [REPEATS [DIR...]]: what programs feel on `weft mount` and on the FUSE mount of GlusterFS (one
# volume over two bricks), and on the file system under both, with the data of both in each DIR (the
# disk of ./target and /dev/shm, unless told). Prints a Markdown table a DIR: wall seconds, processor seconds
# of the system's own processes, medians, and their ratio. Needs root, FUSE and glusterd. All runs in
# namespaces of its own, so nothing listens outside, and nothing is left running or mounted.
set -eu -o pipefail
weft=$(readlink -f "$1") repeats=${2:-3}
shift $(($# < 2 ? $# : 2))
if [ -z "${WEFT_MOUNTS_INSIDE:-}" ]; then
  here=$(dirname "$(readlink -f "$0")")
  mkdir -p "$here/../../target"
  [ $# -gt 0 ] || set -- "$here/../../target" /dev/shm
  for dir; do
    work=$(mktemp -d "$dir/weft-mounts.XXXXXX")
    trap 'rm -rf --one-file-system "$work"' EXIT
    # the end of the first process of a PID namespace ends all others, and with it its mounts go away
    WEFT_MOUNTS_INSIDE=$(readlink -f "$work") \
      unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$weft" "$repeats"
    rm -rf --one-file-system "$work"
  done
  exit
fi
work=$WEFT_MOUNTS_INSIDE figures=$WEFT_MOUNTS_INSIDE/figures
exec 3>&1 >"$work/log" 2>&1
trap '[ $? = 0 ] || tail -n 20 "$work/log" >&3' EXIT

# what is copied: 2,000 files of up to 16 KiB in fifty directories, two of 8 MiB, and a repository of them
mkdir "$work/tree"
for directory in $(seq 50); do
  mkdir "$work/tree/d$directory"
  for file in $(seq 40); do
    head -c $(((directory * 40 + file) * 7919 % 16384)) /dev/urandom >"$work/tree/d$directory/f$file"
  done
done
head -c 8388608 /dev/urandom >"$work/tree/large1"
head -c 8388608 /dev/urandom >"$work/tree/large2"
tar -C "$work" -cf "$work/tree.tar" tree
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
git -c init.defaultBranch=main init -q "$work/repository"
cp -r "$work/tree/." "$work/repository"
git -C "$work/repository" add .
git -C "$work/repository" -c user.name=weft -c user.email=weft@localhost commit -q -m tree
git -C "$work/repository" gc -q

ip link set lo up
ip address add 192.0.2.1/32 dev lo # GlusterFS takes no brick at an address of loopback
mkdir -p "$work/on/local" "$work/on/gluster" "$work/on/weft" "$work/brick1" "$work/brick2"

for directory in /var/lib/glusterd /var/log/glusterfs /run/gluster; do
  mkdir -p "$directory"
  mount -t tmpfs none "$directory"
done
glusterd
volume() { gluster --mode=script volume "$@"; }
until volume list; do sleep 0.2; done
volume create bench "192.0.2.1:$work/brick1" "192.0.2.1:$work/brick2" force
volume start bench
mount -t glusterfs 192.0.2.1:/bench "$work/on/gluster"

printf '[export]\nroot_squash = false\nprivileged_ports = false\n' >"$work/mds.toml"
"$weft" up --json --listen 127.0.0.1:2049 --dir "$work/cluster" --data-servers 2 --config "$work/mds.toml" \
  >"$work/endpoints" &
server=$!
until [ -s "$work/endpoints" ]; do
  kill -0 "$server"
  sleep 0.1
done
"$weft" mount 127.0.0.1:2049 "$work/on/weft"
mountpoint -q "$work/on/gluster"
mountpoint -q "$work/on/weft"

ticks() { # SYSTEM: hundredths of a second its processes have run
  cat /proc/[0-9]*/stat 2>/dev/null |
    awk -v of="$1" '$2 ~ "^[(]" of { sum += $14 + $15 } END { print sum + 0 }'
}
phase() { # SYSTEM NAME COMMAND...
  local system=$1 name=$2 before start end after
  shift 2
  sync
  before=$(ticks "$system") start=$(date +%s%N)
  "$@"
  end=$(date +%s%N) after=$(ticks "$system")
  echo "$system $name $(((end - start) / 1000)) $(((after - before) * 1000000 / $(getconf CLK_TCK)))" >>"$figures"
}
stats() { find "$1" -type f -print0 | xargs -0 stat -c %s >/dev/null; }
for _ in $(seq "$repeats"); do
  for system in local gluster weft; do
    on=$work/on/$system
    phase "$system" clone git clone -q --no-hardlinks "$work/repository" "$on/clone"
    phase "$system" tar tar -C "$on" -xf "$work/tree.tar"
    phase "$system" du du -s "$on/tree"
    phase "$system" stat stats "$on/tree"
    phase "$system" cp cp -r "$on/tree" "$on/copy"
    diff -r "$work/tree" "$on/copy"
    git -C "$on/clone" diff --quiet HEAD
    phase "$system" rm rm -rf "$on/tree"
    rm -rf "$on/copy" "$on/clone"
    phase "$system" write dd if=/dev/zero of="$on/stream" bs=1M count=256 conv=fsync
    dd if="$on/stream" iflag=nocache count=0 # the mount's own page cache forgets it
    phase "$system" read dd if="$on/stream" of=/dev/null bs=1M
    rm "$on/stream"
  done
done

of() { # SYSTEM PHASE FIELD: the middle one, the least and the most, in seconds
  awk -v s="$1" -v p="$2" -v f="$3" '$1 == s && $2 == p { print $f / 1000000 }' "$figures" | sort -n |
    awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)], v[1], v[NR] }'
}
{
  echo "Data on $(findmnt -n -o FSTYPE -T "$work"); seconds, medians of $repeats (least to most); processor seconds of servers and mount"
  echo
  echo "| | local | GlusterFS | \`weft mount\` | Weft is faster by | processor: GlusterFS | Weft | ratio |"
  echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
  for name in clone tar rm cp du stat write read; do
    read -r local _ <<<"$(of local $name 3)"
    read -r gluster gluster_least gluster_most <<<"$(of gluster $name 3)"
    read -r own own_least own_most <<<"$(of weft $name 3)"
    read -r gluster_cpu _ <<<"$(of gluster $name 4)"
    read -r own_cpu _ <<<"$(of weft $name 4)"
    awk -v name="$name" -v l="$local" -v g="$gluster" -v gl="$gluster_least" -v gm="$gluster_most" -v o="$own" \
      -v ol="$own_least" -v om="$own_most" -v gc="$gluster_cpu" -v oc="$own_cpu" 'BEGIN {
        printf "| %s | %.2f | %.2f (%.2f to %.2f) | %.2f (%.2f to %.2f) | %.2f | %.2f | %.2f | %s |\n",
          name, l, g, gl, gm, o, ol, om, g / o, gc, oc, (oc > 0 ? sprintf("%.2f", gc / oc) : "-") }'
  done
  echo
} >&3
