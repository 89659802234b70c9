#!/bin/sh
# pnfs.sh PORT MEBIBYTES: for versions 4.1 and 4.2, writes one file of random bytes, remounts, reads
# it back, and prints what the kernel counted. Calls `host sample NAME` before and after each phase,
# so that the host can note what every server moved.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1 mebibytes=$2
tracing=/sys/kernel/tracing

# Tracepoints of the 6.x kernels that fire whenever I/O falls back to the metadata server.
watch_fallbacks() {
  modprobe nfsv4
  modprobe nfs_layout_nfsv41_files
  for event in "$tracing"/events/nfs4/pnfs_mds_fallback_*; do
    [ -e "$event/enable" ] && echo 1 >"$event/enable"
  done
}

fallbacks() {
  [ -r "$tracing/trace" ] || { echo untraced; return; }
  grep -c pnfs_mds_fallback "$tracing/trace"
}

count() { # VERSION PHASE: the kernel's own pNFS counters of the mount
  pnfsstat /mnt >/tmp/stat
  cat /tmp/stat
  proof "$1" "$2.layout" "$(sed -n 's/^nfsv4:.*pnfs=\([^,]*\).*/\1/p' /tmp/stat | head -1)"
  proof "$1" "$2.pnfs_reads" "$(sed -n 's/.*pnfs-reads \([0-9]*\).*/\1/p' /tmp/stat)"
  proof "$1" "$2.pnfs_writes" "$(sed -n 's/.*pnfs-writes \([0-9]*\).*/\1/p' /tmp/stat)"
}

watch_fallbacks
dd if=/dev/urandom of=/tmp/data bs=1M count="$mebibytes" 2>/dev/null || fail "no random data"
want=$(md5_of /tmp/data)
for version in 4.1 4.2; do
  mount_weft /mnt $version "$port"
  file=/mnt/pnfs-$version
  host sample "$version.idle" || fail "the host could not take a sample"
  dd if=/tmp/data of=$file bs=1M conv=fsync 2>/dev/null || fail "write $file"
  host sample "$version.written" || fail "the host could not take a sample"
  count $version write
  unmount /mnt
  drop_caches

  mount_weft /mnt $version "$port"
  got=$(md5_of $file) || fail "read $file"
  host sample "$version.read" || fail "the host could not take a sample"
  count $version read
  [ "$got" = "$want" ] || fail "vers=$version: read back $got, wrote $want"
  proof $version md5 "$got"
  proof $version fallbacks "$(fallbacks)"
  unmount /mnt
  drop_caches
done
