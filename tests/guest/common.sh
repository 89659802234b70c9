#!/bin/sh
# Shared by the guest scripts (sourced): words for failing and for waiting.

fail() {
  echo "FAIL: $*"
  exit 1
}

# One fact for the test on the host: proof VERSION KEY VALUE.
proof() { echo "proof $*"; }

# until_true SECONDS WHAT COMMAND...: polls until COMMAND succeeds, fails after SECONDS.
until_true() {
  seconds=$1 what=$2
  shift 2
  tries=$((seconds * 10))
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || fail "no $what within $seconds s"
    usleep 100000
  done
}

mount_weft() { # DIR VERSION PORT
  nfsmount "$SERVER:/" "$1" "vers=$2,port=$3" || fail "mount vers=$2 of port $3 ($?)"
  grep " $1 nfs4 " /proc/mounts | grep -q "vers=$2," || fail "$1 is not mounted with vers=$2"
}

unmount() { umount "$1" || fail "umount $1"; }

md5_of() { md5sum "$1" | cut -d' ' -f1; }

drop_caches() {
  sync
  echo 3 >/proc/sys/vm/drop_caches
}

# pnfs_counters VERSION PHASE: the kernel's own pNFS counters of /mnt, the only mount. LAYOUTGETs and
# LAYOUTRETURNs are those that are not part of OPEN or CLOSE.
pnfs_counters() {
  pnfsstat /mnt >/tmp/stat
  cat /tmp/stat
  proof "$1" "$2.layout" "$(sed -n 's/^nfsv4:.*pnfs=\([^,]*\).*/\1/p' /tmp/stat | head -1)"
  proof "$1" "$2.pnfs_reads" "$(sed -n 's/.*pnfs-reads \([0-9]*\).*/\1/p' /tmp/stat)"
  proof "$1" "$2.pnfs_writes" "$(sed -n 's/.*pnfs-writes \([0-9]*\).*/\1/p' /tmp/stat)"
  proof "$1" "$2.layoutgets" "$(mount_sum LAYOUTGET 2)"
  proof "$1" "$2.layoutreturns" "$(mount_sum LAYOUTRETURN 2)"
  proof "$1" "$2.layoutreturn_errors" "$(mount_sum LAYOUTRETURN 10)"
}

# mount_sum OPERATION COLUMN: of the kernel's statistics of its mounts.
mount_sum() {
  awk -v op="$1:" -v at="$2" '$1 == op { n += $at } END { print n + 0 }' /proc/self/mountstats
}
