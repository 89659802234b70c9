#!/bin/sh
# restart.sh PORT: a mounted client lives through a kill -9 and through a clean restart of the
# server by itself: open files stay usable, a held lock still excludes others, data written before,
# across and after the restart is what was written. `host kill9`, `host stop`, `host start` act on
# the server.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1

# Dirty pages leave early, so that the server holds unstable writes when it dies.
echo 10 >/proc/sys/vm/dirty_writeback_centisecs
echo 10 >/proc/sys/vm/dirty_expire_centisecs
dd if=/dev/urandom of=/tmp/first bs=1M count=4 2>/dev/null
dd if=/dev/urandom of=/tmp/second bs=1M count=4 2>/dev/null
dd if=/dev/urandom of=/tmp/large bs=1M count=24 2>/dev/null
whole=$(cat /tmp/first /tmp/second | md5sum | cut -d' ' -f1)

wire_written() { pnfsstat /mnt/a | sed -n 's/^bytes:.*wire-write \([0-9]*\).*/\1/p'; }
has_sent() { [ "$(wire_written)" -ge "$1" ]; }

# A second mount with the other minor version, which makes it another client: it is the server (and
# not this kernel) that must refuse it.
other_version() { [ "$version" = 4.1 ] && echo 4.2 || echo 4.1; }

excluded() { # WHEN
  locker try /mnt/b/lock
  status=$?
  [ $status = 1 ] || fail "vers=$version: a second owner got status $status for a held lock $1"
}

through_restart() { # HOW (kill9 or stop)
  sent=$(wire_written)
  exec 6<"$dir/kept" 7>"$dir/half-$1"
  dd bs=1000000 count=1 <&6 >/tmp/kept.start 2>/dev/null
  cat /tmp/first >&7
  until_true 30 "write reaching the server" has_sent $((sent + 1048576))
  dd if=/tmp/large of="$dir/flying-$1" bs=1M conv=fsync 2>/tmp/flying &
  flying=$!
  host "$1" || fail "host $1"
  host start || fail "host start"
  cat /tmp/second >&7 || fail "vers=$version: write after $1"
  exec 7>&-
  cat <&6 >/tmp/kept.rest || fail "vers=$version: read of an open file after $1"
  cat /tmp/kept.start /tmp/kept.rest >/tmp/kept.read
  exec 6<&-
  wait $flying || { cat /tmp/flying; fail "vers=$version: write in flight over $1"; }
  [ "$(md5_of /tmp/kept.read)" = "$whole" ] || fail "vers=$version: open file read wrong after $1"
  excluded "after $1"
  echo new >"$dir/new-$1" || fail "vers=$version: create after $1"
  kill -0 $holder 2>/dev/null || fail "vers=$version: the lock holder is gone after $1"
}

verify() { # the files of this version, on a fresh mount
  unmount /mnt/a
  drop_caches
  mount_weft /mnt/a $version "$port"
  for file in kept half-kill9 half-stop; do
    [ "$(md5_of "$dir/$file")" = "$whole" ] || fail "vers=$version: $file differs"
  done
  for file in flying-kill9 flying-stop; do
    cmp /tmp/large "$dir/$file" || fail "vers=$version: $file differs"
  done
  for how in kill9 stop; do
    [ "$(cat "$dir/new-$how")" = new ] || fail "vers=$version: new-$how differs"
  done
  [ "$(cat "$dir/lock")" = held ] || fail "vers=$version: the write under the lock is lost"
}

for version in 4.1 4.2; do
  mount_weft /mnt/a $version "$port"
  dir=/mnt/a/restart-$version
  mkdir "$dir" || fail "mkdir $dir"
  cat /tmp/first /tmp/second >"$dir/kept" || fail "write $dir/kept"
  unmount /mnt/a
  drop_caches
  mount_weft /mnt/a $version "$port"
  [ "$(md5_of "$dir/kept")" = "$whole" ] || fail "vers=$version: differs after a remount"

  rm -f /tmp/ready /tmp/release
  locker hold "$dir/lock" /tmp/ready /tmp/release &
  holder=$!
  until_true 30 "lock" test -e /tmp/ready
  nfsmount "$SERVER:/restart-$version" /mnt/b "vers=$(other_version),port=$port" ||
    fail "second mount"
  excluded "before any restart"
  through_restart kill9
  through_restart stop
  : >/tmp/release
  wait $holder || fail "vers=$version: the lock holder failed ($?)"
  locker try /mnt/b/lock || fail "vers=$version: the released lock cannot be had"
  unmount /mnt/b
  verify
  unmount /mnt/a
  proof $version recovered yes
done
