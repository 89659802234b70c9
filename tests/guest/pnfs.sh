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

# Small files: made, written in pieces and as a whole, written over, and read after a new mount.
small_files() { # VERSION
  mount_weft /mnt "$1" "$port"
  host sample "$1.small.idle" || fail "the host could not take a sample"
  mkdir /mnt/small-"$1"
  n=0
  while [ $n -lt 20 ]; do
    f=/mnt/small-$1/$n
    dd if=/tmp/data of="$f" bs=3000 count=$((n % 10 + 1)) conv=fsync 2>/dev/null || fail "write $f"
    dd if=/tmp/data of="$f" bs=1000 seek=2 skip=2 count=1 conv=notrunc 2>/dev/null ||
      fail "write into $f"
    n=$((n + 1))
  done
  sync
  proof "$1" small.write_layoutgets "$(mount_sum LAYOUTGET 2)"
  unmount /mnt
  drop_caches
  mount_weft /mnt "$1" "$port"
  n=0
  while [ $n -lt 20 ]; do
    wanted=$(head -c $(((n % 10 + 1) * 3000)) /tmp/data | md5sum | cut -d' ' -f1)
    [ "$(md5_of /mnt/small-"$1"/$n)" = "$wanted" ] || fail "vers=$1: small file $n differs"
    n=$((n + 1))
  done
  proof "$1" small.read_layoutgets "$(mount_sum LAYOUTGET 2)"
  host sample "$1.small.done" || fail "the host could not take a sample"
  unmount /mnt
  drop_caches
}

watch_fallbacks
dd if=/dev/urandom of=/tmp/data bs=1M count="$mebibytes" 2>/dev/null || fail "no random data"
want=$(md5_of /tmp/data)
for version in 4.1 4.2; do
  small_files $version
  mount_weft /mnt $version "$port"
  # What a client does with a file of its own must not keep it from the data servers afterwards.
  unlinked /mnt/unlinked || fail "vers=$version: a file that is removed while it is used"
  proof $version unlinked.layoutgets "$(mount_sum LAYOUTGET 2)"
  file=/mnt/pnfs-$version
  host sample "$version.idle" || fail "the host could not take a sample"
  dd if=/tmp/data of=$file bs=1M conv=fsync 2>/dev/null || fail "write $file"
  host sample "$version.written" || fail "the host could not take a sample"
  pnfs_counters $version write
  unmount /mnt
  drop_caches

  mount_weft /mnt $version "$port"
  got=$(md5_of $file) || fail "read $file"
  host sample "$version.read" || fail "the host could not take a sample"
  pnfs_counters $version read
  [ "$got" = "$want" ] || fail "vers=$version: read back $got, wrote $want"
  proof $version md5 "$got"
  proof $version fallbacks "$(fallbacks)"
  unmount /mnt
  drop_caches
done

# The owner takes rights away while he writes through layouts, and between two writes by one open
# file: the handles end each time. No error, and every byte arrives.
fences_while_writing() { # VERSION
  mount_weft /mnt "$1" "$port"
  file=/mnt/fenced-$1
  part=$((mebibytes / 8))
  host sample "$1.fenced.idle" || fail "the host could not take a sample"
  exec 8<>"$file"
  n=0
  while [ $n -lt 8 ]; do
    dd if=/tmp/data bs=1M skip=$((n * part)) count=$part conv=fsync >&8 2>/tmp/dd.err &
    writer=$!
    chmod 0600 "$file" || fail "chmod $file"
    chmod 0644 "$file" || fail "chmod $file"
    wait $writer || fail "vers=$1: $(cat /tmp/dd.err)"
    chmod 0600 "$file" || fail "chmod $file"
    chmod 0644 "$file" || fail "chmod $file"
    n=$((n + 1))
  done
  exec 8>&-
  host sample "$1.fenced.done" || fail "the host could not take a sample"
  unmount /mnt
  drop_caches
  mount_weft /mnt "$1" "$port"
  [ "$(md5_of "$file")" = "$want" ] || fail "vers=$1: bytes were lost by chmod"
  unmount /mnt
  drop_caches
}

for version in 4.1 4.2; do
  fences_while_writing $version
done
