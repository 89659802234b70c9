#!/bin/sh
# faults.sh PORT WIDE OTHER: a mounted client lives through the death and the standstill of a data
# server. Others were writing files in /cuts meanwhile. WIDE is striped over data servers 1 and 3, OTHER over 2 and 4. `host kill1` kills data
# server 1 once it has got some of WIDE, `host start1` starts it again, `host freeze2` and `host
# thaw2` stop data server 2 and let it go on.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1 wide=/mnt/$2 other=/mnt/$3

# Dirty pages leave early, so that the server has unstable writes when it dies.
echo 10 >/proc/sys/vm/dirty_writeback_centisecs
echo 10 >/proc/sys/vm/dirty_expire_centisecs
dd if=/dev/urandom of=/tmp/large bs=1M count=64 2>/dev/null
dd if=/dev/urandom of=/tmp/small bs=1M count=8 2>/dev/null

write_file() { dd if="$1" of="$2" bs=1M conv=notrunc,fsync 2>/tmp/dd || { cat /tmp/dd; return 1; }; }

# FILE: 1 MiB at a time, so that there is a middle to be killed in. The file stays open: who opens it anew while its data
# server is dead waits until its size is known, and an open that may create holds its directory meanwhile, with Linux.
write_slowly() {
  exec 9>>"$1" || return 1
  block=0
  while [ $block -lt 64 ]; do
    dd if=/tmp/large of="$1" bs=1M skip=$block seek=$block count=1 conv=notrunc 2>/dev/null || return 1
    usleep 20000
    block=$((block + 1))
  done
  dd if=/dev/null of="$1" bs=1M seek=64 conv=notrunc,fsync 2>/tmp/dd || { cat /tmp/dd; return 1; }
  exec 9>&-
}

begins_small() { dd if="$1" bs=1M count=8 2>/dev/null | cmp - /tmp/small; }

serves() { # FILE WHEN: quickly, past every cache
  began=$(date +%s)
  write_file /tmp/small "$1" || fail "write of $1 $2"
  echo 3 >/proc/sys/vm/drop_caches
  begins_small "$1" || fail "$1 differs $2"
  took=$(($(date +%s) - began))
  [ $took -le 10 ] || fail "$1 took $took s $2"
}

lists_and_makes() { # where others were writing files when their data server died
  began=$(date +%s)
  ls -l /mnt/cuts >/tmp/list || fail "ls -l with data server 1 dead"
  grep -q cut /tmp/list || fail "ls -l shows no file"
  took=$(($(date +%s) - began))
  [ $took -le 5 ] || fail "ls -l took $took s with data server 1 dead"
  for n in 1 2 3 4; do serves "/mnt/cuts/new$n" "new, with data server 1 dead"; done
}

remount() {
  unmount /mnt
  drop_caches
  mount_weft /mnt 4.2 "$port"
}

mount_weft /mnt 4.2 "$port"
serves "$other" "before any fault"
write_slowly "$wide" &
writer=$!
host kill1 || fail "host kill1"
serves "$other" "with data server 1 dead"
lists_and_makes
sleep 5
kill -0 $writer 2>/dev/null || fail "the write ended without its data server"
host start1 || fail "host start1"
began=$(date +%s)
wait $writer || fail "write over the death of a data server"
proof 4.2 recovered-after-death $(($(date +%s) - began))
remount
cmp /tmp/large "$wide" || fail "$wide differs after the death of a data server"

host freeze2 || fail "host freeze2"
write_file /tmp/large "$other" &
writer=$!
serves "$wide" "with data server 2 frozen"
sleep 10
kill -0 $writer 2>/dev/null || fail "the write ended without its frozen data server"
host thaw2 || fail "host thaw2"
began=$(date +%s)
wait $writer || fail "write over the standstill of a data server"
proof 4.2 recovered-after-freeze $(($(date +%s) - began))
remount
cmp /tmp/large "$other" || fail "$other differs after the standstill of a data server"
begins_small "$wide" || fail "$wide differs at last"
unmount /mnt
