#!/bin/sh
# What the guests of kernelbench.sh have in common (sourced). Of each phase /out gets what /proc/self/mountstats said
# before (PHASE.before), when the work was done (PHASE.waited) and when everything else that it leads to was
# (PHASE.total), and a line `PHASE THINGS SECONDS` in /out/times. The host is told `begin PHASE` and `end PHASE`.

# Longer than a client waits before it sends what is not urgent.
settle_seconds=1
# The tree that is extracted, copied and committed.
# shellcheck disable=SC2034 # those who source this use them
tree_dirs=20 tree_files=50
# What is streamed, in MiB.
# shellcheck disable=SC2034
stream_mib=256

# With MOUNT=weft through FUSE, by `weft mount`; it says nothing in mountstats.
mount_server() { # DIR PORT
  if [ "$MOUNT" = weft ]; then
    [ -e /dev/fuse ] || modprobe fuse || fail "no FUSE"
    mkdir -p "$1"
    weft mount "$SERVER:$2" "$1" || fail "weft mount"
  else
    mount_weft "$1" 4.2 "$2"
  fi
}

begin() { host begin "$1" || fail "the host does not listen"; }

end() { # PHASE THINGS SECONDS
  sync
  sleep $settle_seconds
  cat /proc/self/mountstats >"/out/$1.total"
  host end "$1" || fail "the host does not listen"
  echo "$*" >>/out/times
}

# What a server does while nobody asks, to judge the others by.
phase_idle() {
  begin idle
  cat /proc/self/mountstats >/out/idle.before
  cp /out/idle.before /out/idle.waited
  end idle 1 1
}

uptime_now() { cut -d' ' -f1 /proc/uptime; }

timed() { # PHASE THINGS COMMAND...
  name=$1 things=$2
  shift 2
  begin "$name"
  cat /proc/self/mountstats >"/out/$name.before"
  begun=$(uptime_now)
  "$@" >"/tmp/$name.said" 2>&1 || fail "$name: $(tail -5 "/tmp/$name.said")"
  ended=$(uptime_now)
  cat /proc/self/mountstats >"/out/$name.waited"
  end "$name" "$things" "$(awk -v a="$begun" -v b="$ended" 'BEGIN { printf "%.2f", b - a }')"
}

# Without lost packets that take long (see try_again_soon in kernelbench.sh). With DIR_DELEGATIONS=off the client does
# not ask for delegations of directories, if it ever does.
prepare_client() {
  wait_us=/proc/sys/net/ipv4/tcp_rto_min_us
  [ ! -e $wait_us ] || echo 10000 >$wait_us
  [ "$DIR_DELEGATIONS" != on ] || return 0
  wanted=/sys/module/nfsv4/parameters/directory_delegations
  modprobe nfsv4 || fail "no NFS client"
  [ ! -e $wanted ] || echo N >$wanted
}
