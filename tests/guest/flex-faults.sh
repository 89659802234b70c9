#!/bin/sh
# flex-faults.sh PORT: for versions 4.1 and 4.2, with files that are whole on one data server:
#   - its disk is full (`host fill`, `host free`): who writes is told so soon, what was acknowledged
#     before is there, and with room writing goes on;
#   - it is killed while a file is written, and comes back (`host kill`): the writer goes on, with
#     no error and the right bytes.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1
limit=30 # seconds, for whoever writes to a full disk
mib=8    # of each file

now() { cut -d. -f1 /proc/uptime; }

remount() { # VERSION
  unmount /mnt
  drop_caches
  mount_weft /mnt "$1" "$port"
}

full() { # VERSION
  file=/mnt/full-$1
  # Open all the time: the layout stays.
  exec 8<>"$file"
  dd if=/tmp/data bs=1M count=$((mib / 2)) conv=fsync >&8 2>/tmp/dd.err ||
    fail "vers=$1: $(cat /tmp/dd.err)"
  pnfs_counters "$1" room
  host fill || fail "host fill"
  began=$(now)
  if dd if=/tmp/data bs=1M skip=$((mib / 2)) conv=fsync >&8 2>/tmp/dd.err; then
    fail "vers=$1: written to a full disk"
  fi
  took=$(($(now) - began))
  grep -q 'No space left' /tmp/dd.err || fail "vers=$1: $(cat /tmp/dd.err)"
  [ $took -le $limit ] || fail "vers=$1: it took $took s to hear of a full disk"
  proof "$1" full.seconds "$took"
  exec 8>&-
  pnfs_counters "$1" full
  remount "$1"
  got=$(head -c $((mib / 2 << 20)) "$file" | md5_of -)
  [ "$got" = "$half" ] || fail "vers=$1: what was acknowledged before the disk was full differs"
  host free || fail "host free"
  dd if=/tmp/data of="$file" bs=1M skip=$((mib / 2)) seek=$((mib / 2)) conv=notrunc,fsync \
    2>/tmp/dd.err || fail "vers=$1: with room again: $(cat /tmp/dd.err)"
  remount "$1"
  [ "$(md5_of "$file")" = "$whole" ] || fail "vers=$1: what was written with room again differs"
}

# writes FILE: pieces of the data here and there, the same to /tmp/expected, until /tmp/stop is there;
# each fourth one is on disk before it goes on. How many is in /tmp/pieces.
writes() {
  n=0
  until [ -e /tmp/stop ]; do
    for to in "$1" /tmp/expected; do
      sync=notrunc
      [ $((n % 4)) = 3 ] && sync=notrunc,fsync
      dd if=/tmp/data of="$to" bs=256k skip=$((n * 7 % (mib * 4))) seek=$((n % (mib * 4))) count=1 \
        conv=$sync 2>/tmp/piece.err || return 1
    done
    n=$((n + 1))
    echo $n >/tmp/pieces.new
    mv /tmp/pieces.new /tmp/pieces
  done
  sync "$1"
}

written() { [ "$(cat /tmp/pieces)" -ge "$1" ]; }

killed() { # VERSION
  file=/mnt/killed-$1
  cp /tmp/data /tmp/expected
  # Open all the time: the layout stays.
  exec 8<>"$file"
  dd if=/tmp/data bs=1M conv=fsync >&8 2>/tmp/dd.err || fail "vers=$1: $(cat /tmp/dd.err)"
  rm -f /tmp/stop
  echo 0 >/tmp/pieces
  writes "$file" &
  writer=$!
  until_true 30 "start" written 5
  host kill || fail "host kill"
  before=$(cat /tmp/pieces)
  until_true 60 "piece after the data server came back" written $((before + 20))
  touch /tmp/stop
  wait $writer || fail "vers=$1: while a data server was away: $(cat /tmp/piece.err)"
  proof "$1" killed.pieces "$(cat /tmp/pieces)"
  exec 8>&-
  pnfs_counters "$1" killed
  remount "$1"
  cmp "$file" /tmp/expected || fail "vers=$1: bytes were lost with a data server"
}

dd if=/dev/urandom of=/tmp/data bs=1M count=$mib 2>/dev/null || fail "no random data"
whole=$(md5_of /tmp/data)
half=$(head -c $((mib / 2 << 20)) /tmp/data | md5_of -)
for version in 4.1 4.2; do
  mount_weft /mnt $version "$port"
  full $version
  killed $version
  rm /mnt/full-$version /mnt/killed-$version || fail "rm"
  unmount /mnt
  host told $version || fail "host told"
done
