#!/bin/sh
# a dies holding a lock, a delegation and layouts: b gets what it needs when a's lease has passed.
# The last part: a has its machine switched off.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d, role and the words come from two-clients.sh, which sources this

MIB=1048576

hold_lock() {
  rm -f /tmp/ready /tmp/release
  locker hold "$d/lock" /tmp/ready /tmp/release &
  until_true 30 "lock" test -e /tmp/ready
}
# Some bytes are durable, and more are on their way.
write_on() {
  ranges write "$d/data" 1 0 $((8 * MIB)) create sync &&
    { ranges write "$d/data" 1 $((8 * MIB)) $((64 * MIB)) slow=/tmp/never & } && sleep 1
}
die() {
  dmesg
  host off
  fail "the machine is still on"
}

wait_for_lock() { { locker wait "$d/lock"; echo $? >/tmp/waited; } & }
has_lock() { [ -s /tmp/waited ] && is "$(cat /tmp/waited)" 0; }
# The size that the data servers have: what was durable, or more; and from now on no more.
data_is_settled() {
  size=$(facts %s "$d/data")
  [ "$size" -ge $((8 * MIB)) ] || { echo "only $size bytes"; return 1; }
  ranges check "$d/data" 1 0 $((8 * MIB)) && ranges check "$d/data" 1 0 "$size" holes &&
    is "$(wc -c <"$d/data")" "$size"
}

b put "$d/file" 1 200000
a hold_lock
a delegated "$d/file"
a write_on
b not locker try "$d/lock"
b wait_for_lock
if [ "$role" = a ]; then die; fi
began=$(date +%s)
put "$d/file" 2 300000 || fail "write of a file whose reader is dead"
has "$d/file" 2 300000 || fail "a file whose reader is dead"
until_true 90 "lock of the dead" has_lock
proof "$version" death.lock $(($(date +%s) - began))
ranges write "$d/data" 1 $((8 * MIB)) 4096 || fail "write of a file whose writer is dead"
data_is_settled || fail "the file whose writer is dead"
truncate -s $((8 * MIB)) "$d/data" || fail "truncation of a file whose writer is dead"
has "$d/data" 1 $((8 * MIB)) || fail "the truncated file whose writer is dead"
ranges write "$d/data" 1 $((8 * MIB)) $((4 * MIB)) || fail "write behind a dead writer's end"
has "$d/data" 1 $((12 * MIB)) || fail "the file after its second writer"
proof "$version" death.took $(($(date +%s) - began))
