#!/bin/sh
# load.sh PORT SEED STEP...: several processes (see load.c) change files on a mounted Weft all the
# time, while the steps are taken one after the other:
#   progress     every worker goes on
#   nospace      somebody is told that there is no space
#   check        everything stands still: `host list ENTRY , ENTRY , ...` says what must be there,
#                `host check` compares; a lock that is held all the time still excludes others
#   host:WORD    host WORD, while the load goes on
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1 seed=$2
shift 2
workers=3
# Longer than any standstill that a fault may bring: a grace of twice the lease, and the pauses
# between a client's attempts to connect, which double.
patience=120

# Dirty pages leave early, so that servers hold unstable writes when they die.
echo 10 >/proc/sys/vm/dirty_writeback_centisecs
echo 10 >/proc/sys/vm/dirty_expire_centisecs

tell_host() { # a few entries of the list at a time
  batch=
  while read -r entry; do
    batch="$batch $entry ,"
    [ ${#batch} -lt 600 ] && continue
    # shellcheck disable=SC2086 # words
    host list $batch || fail "host list"
    batch=
  done </tmp/load.list
  # shellcheck disable=SC2086
  [ -z "$batch" ] || host list $batch || fail "host list"
}

excluded() { # a second superblock: its lock owners are others, so the server must refuse them
  locker try /mnt/b/held
  status=$?
  [ $status = 1 ] || fail "a second owner got status $status for the lock that is held"
}

check() {
  load rest /tmp/load $patience || fail "rest ($step)"
  tell_host
  host check || fail "host check"
  excluded
  load go /tmp/load || fail "go"
}

mount_weft /mnt/a 4.2 "$port"
# With the other minor version it is another client: the server must refuse it, not this kernel.
mount_weft /mnt/b 4.1 "$port"
load run /tmp/load /mnt/a $workers "$seed" &
running=$!
for step; do
  case $step in
    progress) load progress /tmp/load 8 $patience || fail "progress" ;;
    nospace) load nospace /tmp/load 1 $patience || fail "nospace" ;;
    check) check ;;
    host:*) host "${step#host:}" || fail "$step" ;;
    *) fail "no such step: $step" ;;
  esac
done
load stop /tmp/load $patience || fail "stop"
wait $running || fail "the load failed ($?)"
load report /tmp/load >/tmp/report || fail "report"
while read -r key value; do proof 4.2 "$key" "$value"; done </tmp/report
unmount /mnt/b
unmount /mnt/a
