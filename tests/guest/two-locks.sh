#!/bin/sh
# Locks between two clients.
# shellcheck source-path=SCRIPTDIR source=two-clients.sh
# shellcheck disable=SC2154 # d comes from two-clients.sh, which sources this

take() { # hold or share
  rm -f /tmp/ready /tmp/release
  locker "$1" "$d/lock" /tmp/ready /tmp/release &
  holder=$!
  until_true 30 "lock" test -e /tmp/ready
}
release() {
  : >/tmp/release
  wait "$holder"
}
refused() {
  locker try "$d/lock" "$@"
  is $? 1
}
tells() { is "$(locker tell "$d/lock")" "$1"; }

# Tried, asked about, and beside another.
a take hold
b refused
b refused 99 1
b tells "write 0 100"
b locker try "$d/lock" 100 50

# Waited for. The client asks again after 1, 2, 4, ... s, or, told that it will be notified, sleeps
# for 30 s at most: two requests only, of which the second came soon, say that it was.
start_waiting() {
  rm -f /tmp/waited
  requests=$(sent LOCK)
  { locker wait "$d/lock"; echo $? >/tmp/waited; } &
}
still_waiting() { [ ! -e /tmp/waited ]; }
granted_within() {
  until_true "$1" "lock after its release" test -s /tmp/waited
  is "$(cat /tmp/waited)" 0
}
b start_waiting
both sleep 5
b still_waiting
a release
b granted_within 10
asked_twice() { is $(($(sent LOCK) - requests)) 2; }
b asked_twice
b tells none

# Shared.
a take share
b tells "read 0 100"
b take share
a refused
a release
a refused
b release
a locker try "$d/lock"

# One number that both count up: no lock is had twice, and whoever has it sees the last number.
counted() { is "$(cat "$d/$1")" "$(printf %019d "$2")"; }
for how in fcntl flock; do
  both locker count "$d/$how" 30 $how
  both counted $how 60
done
