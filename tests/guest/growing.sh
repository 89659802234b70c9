#!/bin/sh
# growing.sh PORT VERSION ROUNDS: a file that grows by asynchronous direct writes at the data
# servers is never shorter, for who looks, than what the client was told is written.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
mount_weft /mnt "$2" "$1"
round=0
while [ $round -lt "$3" ]; do
  round=$((round + 1))
  growing /mnt/grown 4000 2 >/tmp/growing || fail "round $round: $(cat /tmp/growing)"
  proof growing $round "$(cat /tmp/growing)"
done
written=$(sed -n 's/^[[:space:]]*WRITE: \([0-9]*\) .*/\1/p' /proc/self/mountstats)
proof growing writes "$written"
unmount /mnt
