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
