#!/bin/sh
# two-clients.sh ROLE VERSION PORT PART...: two guests run this at once, one as a, the other as b,
# and share one mounted server. Each PART is a file two-PART.sh beside this one: one list of steps
# for both, of which each takes its own. `host meet STEP WHAT` returns when both guests are there;
# `host calm` fails if the server has had to take anything away from a guest by force.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
role=$1 version=$2 port=$3
shift 3
step=0

meet() { # WHAT: both guests are done with the step
  step=$((step + 1))
  host meet "$step" "$1" || fail "$role, step $step ($1): the other guest does not come"
}

# a COMMAND... and b COMMAND... are one step of one guest, which must succeed; both COMMAND... is a
# step of both at once.
a() {
  [ "$role" != a ] || "$@" || fail "a, step $((step + 1)): $*"
  meet "a-$1"
}
b() {
  [ "$role" != b ] || "$@" || fail "b, step $((step + 1)): $*"
  meet "b-$1"
}
both() {
  "$@" || fail "$role, step $((step + 1)): $*"
  meet "both-$1"
}

# How often this client sent operations (a regular expression) over its mount.
sent() {
  sed -n -E "s/^[[:space:]]*($1): ([0-9]*) .*/\2/p" /proc/self/mountstats |
    awk '{ sum += $1 } END { print sum + 0 }'
}

# With a delegation an open for reading is not sent.
opens_alone() {
  opens=$(sent 'OPEN|OPEN_NOATTR')
  cat "$1" >/dev/null && [ "$(sent 'OPEN|OPEN_NOATTR')" = "$opens" ]
}

delegated() { # FILE: reads until there is a delegation
  until_true 30 "delegation of $1" opens_alone "$1"
  # shellcheck disable=SC2034 # two-delegations.sh counts from here
  returns=$(sent DELEGRETURN)
}

put() { # FILE SEED SIZE: new contents
  ranges write "$1" "$2" 0 "$3" create trunc
}

has() { # FILE SEED SIZE: these contents, to the last byte
  ranges check "$1" "$2" 0 "$3" && is "$(wc -c <"$1")" "$3"
}

is() { # FOUND WANTED
  [ "$1" = "$2" ] || { echo "found $1, not $2"; return 1; }
}

# Opening asks the server, so that the attributes are no longer those that the client remembers.
facts() { # FORMAT FILE
  : <"$2" && stat -c "$1" "$2"
}

not() { ! "$@"; }

# Dirty pages leave early, so that writers write all the time.
echo 10 >/proc/sys/vm/dirty_writeback_centisecs
echo 10 >/proc/sys/vm/dirty_expire_centisecs
mount_weft /mnt "$version" "$port"
for part; do
  d=/mnt/$part
  a host calm
  a mkdir "$d"
  uptime_before=$(cut -d' ' -f1 /proc/uptime)
  # shellcheck disable=SC1090 # each is checked by itself
  . "/job/two-$part.sh"
  echo "$role: $part from $uptime_before to $(cut -d' ' -f1 /proc/uptime) s"
  proof "$version" "$part" "$step"
done
# The last file may be closed a moment after the process that had it is gone.
gone() { umount /mnt 2>/dev/null; }
until_true 30 "unmounting" gone
