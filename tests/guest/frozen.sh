#!/bin/sh
# frozen.sh PORT: the guest stands still past its lease while another client takes its locks and
# writes the files under them (`host freeze` does all that and returns when the guest goes on). Then
# the processes that had the locks get EIO for their writes: one that has a dirty page, and one that
# is in the middle of a write. Nothing of theirs lands on top of the other's bytes. A file that was
# open without a lock goes on being written.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1

lost_its_lock() { # PROCESS OUTPUT
  wait "$1"
  status=$?
  cat "$2"
  [ $status = 2 ] || fail "status $status of a process that lost its lock"
  # POSIX has no error for a lock that is lost: Linux answers I/O under it with EIO.
  grep -q 'under the lock: .*I/O error\|under the lock: Input/output error' "$2" ||
    fail "no EIO for a write under a lost lock"
}

is_the_others() { # FILE
  [ "$(cat "/mnt/a/$1")" = "of the other client" ] || fail "$1 is $(cat "/mnt/a/$1")"
}

mount_weft /mnt/a 4.2 "$port"
exec 7>/mnt/a/open
echo "before, stable" >&7
sync
echo "before, dirty" >&7
locker hold /mnt/a/locked /tmp/ready /tmp/release >/tmp/holder 2>&1 &
holder=$!
locker busy /mnt/a/busy /tmp/started >/tmp/writer 2>&1 &
writer=$!
until_true 30 "lock" test -e /tmp/ready
until_true 30 "second lock" test -e /tmp/started
host freeze || fail "host freeze"

: >/tmp/release
lost_its_lock $holder /tmp/holder
lost_its_lock $writer /tmp/writer
for file in locked busy; do
  is_the_others $file
  locker try /mnt/a/$file || fail "the lock of $file cannot be had again"
done

echo "after" >&7 || fail "write to the open file"
exec 7>&-
unmount /mnt/a
drop_caches
mount_weft /mnt/a 4.2 "$port"
is_the_others locked
is_the_others busy
printf 'before, stable\nbefore, dirty\nafter\n' | cmp - /mnt/a/open || fail "open differs"
unmount /mnt/a
