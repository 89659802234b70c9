#!/bin/sh
# frozen.sh PORT: the guest stands still past its lease while another client takes its lock and
# writes the file under it (`host freeze` does all that and returns when the guest goes on). Then
# the process that had the lock gets EIO for its write, and nothing of what it had not yet written
# lands on top of the other's bytes; a file that was open without a lock goes on being written.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1

mount_weft /mnt/a 4.2 "$port"
exec 7>/mnt/a/open
echo "before, stable" >&7
sync
echo "before, dirty" >&7
locker hold /mnt/a/locked /tmp/ready /tmp/release >/tmp/holder 2>&1 &
holder=$!
until_true 30 "lock" test -e /tmp/ready
host freeze || fail "host freeze"

: >/tmp/release
wait $holder
status=$?
cat /tmp/holder
[ $status = 2 ] || fail "status $status of the process that lost its lock"
# POSIX has no error for a lock that is lost: Linux answers I/O under it with EIO.
grep -q 'under the lock: .*I/O error\|under the lock: Input/output error' /tmp/holder ||
  fail "no EIO for a write under a lost lock"
[ "$(cat /mnt/a/locked)" = "of the other client" ] || fail "locked: $(cat /mnt/a/locked)"
locker try /mnt/a/locked || fail "the lock cannot be had again"

echo "after" >&7 || fail "write to the open file"
exec 7>&-
unmount /mnt/a
drop_caches
mount_weft /mnt/a 4.2 "$port"
[ "$(cat /mnt/a/locked)" = "of the other client" ] || fail "locked, at last: $(cat /mnt/a/locked)"
printf 'before, stable\nbefore, dirty\nafter\n' | cmp - /mnt/a/open || fail "open differs"
unmount /mnt/a
