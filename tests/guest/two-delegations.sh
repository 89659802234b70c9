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

# Readers disturb nobody, and each may have its own.
b delegated "$d/file"
a delegated "$d/file"
b keeps_it "$d/file"
a ranges write "$d/file" 3 0 3000000
b returned
b has "$d/file" 3 3000000
a has "$d/file" 3 3000000

# Whatever else changes the file or its names.
for change in "truncate -s 100000" "chmod 600" "chown 7" "touch -d @1234567890"; do
  b delegated "$d/file"
  # shellcheck disable=SC2086 # a command and its arguments
  a $change "$d/file"
  b returned
done
shows() { is "$(facts "$1" "$2")" "$3"; }
b shows '%s %a %u %Y' "$d/file" '100000 600 7 1234567890'
b delegated "$d/file"
a ln "$d/file" "$d/link"
b returned
b delegated "$d/file"
a mv "$d/file" "$d/moved"
b returned
b ls "$d"
b delegated "$d/moved"
a rm "$d/moved"
b returned
b ls "$d"
b not test -e "$d/moved"
b has "$d/link" 3 100000

# What the client opened and locked without telling the server, it tells before it gives the
# delegation back: the file stays open, and the lock excludes.
locks_alone() {
  locks=$(sent LOCK)
  exec 9<"$d/link"
  rm -f /tmp/ready /tmp/release
  locker share "$d/link" /tmp/ready /tmp/release &
  holder=$!
  until_true 30 "lock" test -e /tmp/ready
  is "$(sent LOCK)" "$locks"
}
refused() {
  locker try "$d/link"
  is $? 1
}
told() { is "$(sent LOCK)" $((locks + 1)); }
reads_on() { is "$(wc -c <&9)" 100000 && exec 9<&-; }
unlocks() {
  : >/tmp/release
  wait "$holder"
}
b delegated "$d/link"
b locks_alone
a refused
b returned
b told
b reads_on
b unlocks
a locker try "$d/link"
