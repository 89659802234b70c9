#!/bin/sh
# Read delegations: b has one, a changes the file, b gives it back and sees the change.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d comes from two-clients.sh, which sources this

# Its reply may come back to the client after the server has let the other go on.
has_returned() { [ "$(sent DELEGRETURN)" -gt "$returns" ]; }
returned() { until_true 10 "DELEGRETURN" has_returned; }
keeps_it() { opens_alone "$1" && is "$(sent DELEGRETURN)" "$returns"; }

a put "$d/file" 1 200000
b delegated "$d/file"
a put "$d/file" 2 3000000
b returned
b has "$d/file" 2 3000000
# One that was wanted back gets none again for a while: each change is of another file.
b not opens_alone "$d/file"

# Readers disturb nobody, and each may have its own.
a put "$d/shared" 2 3000000
b delegated "$d/shared"
a delegated "$d/shared"
b keeps_it "$d/shared"
a ranges write "$d/shared" 3 0 3000000
b returned
b has "$d/shared" 3 3000000
a has "$d/shared" 3 3000000

# Whatever else changes the file or its names.
shows() { is "$(facts "$1" "$2")" "$3"; }
changes() { # NAME FORMAT SHOWN COMMAND...: a file of this name, by a
  name=$1 format=$2 shown=$3
  shift 3
  a put "$d/$name" 3 100000
  b delegated "$d/$name"
  a "$@" "$d/$name"
  b returned
  b shows "$format" "$d/$name" "$shown"
}
changes cut %s 5000 truncate -s 5000
changes closed %a 600 chmod 600
changes given %u 7 chown 7
changes dated %Y 1234567890 touch -d @1234567890
a put "$d/linked" 3 100000
b delegated "$d/linked"
a ln "$d/linked" "$d/link"
b returned
b has "$d/link" 3 100000
a put "$d/old" 3 100000
b delegated "$d/old"
a mv "$d/old" "$d/moved"
b returned
b ls "$d"
b has "$d/moved" 3 100000
a put "$d/removed" 3 100000
b delegated "$d/removed"
a rm "$d/removed"
b returned
b ls "$d"
b not test -e "$d/removed"

# What the client opened and locked without telling the server, it tells before it gives the
# delegation back: the file stays open, and the lock excludes.
locks_alone() {
  locks=$(sent LOCK)
  exec 9<"$d/locked"
  rm -f /tmp/ready /tmp/release
  locker share "$d/locked" /tmp/ready /tmp/release &
  holder=$!
  until_true 30 "lock" test -e /tmp/ready
  is "$(sent LOCK)" "$locks"
}
refused() {
  locker try "$d/locked"
  is $? 1
}
told() { is "$(sent LOCK)" $((locks + 1)); }
reads_on() { is "$(wc -c <&9)" 100000 && exec 9<&-; }
unlocks() {
  : >/tmp/release
  wait "$holder"
}
a put "$d/locked" 3 100000
b delegated "$d/locked"
b locks_alone
a refused
b returned
b told
b reads_on
b unlocks
a locker try "$d/locked"
