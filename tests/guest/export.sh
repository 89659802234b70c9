#!/bin/sh
# export.sh PORT: whom the export believes as it stands. The host's server has /secret, which only
# root reads, and /readable. Then a server of this machine's own, mounted by its root.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1

refused() { # WHAT COMMAND...
  what=$1
  shift
  "$@" && fail "$what is allowed"
  refusals=$((refusals + 1))
}

refusals=0
mount_weft /mnt 4.2 "$port"
[ "$(cat /mnt/readable)" = "for everybody" ] || fail "/readable is not"
refused "root of another machine" cat /mnt/secret
refused "root of another machine" mkdir /mnt/directory
unmount /mnt
refused "any port" nfsmount "$SERVER:/" /mnt "vers=4.2,port=$port,noresvport"

ip link set lo up
weft up --dir /tmp/own --data-servers 1 >/tmp/up.log 2>&1 &
until_true 60 "server" grep -q '^Serving' /tmp/up.log
nfsmount 127.0.0.1:/ /mnt vers=4.2 || fail "no mount of the own server"
mkdir /mnt/ada || fail "root of this machine is not root"
chown 1000:1000 /mnt/ada || fail "root of this machine is not root"
[ "$(stat -c %u /mnt/ada)" = 1000 ] || fail "chown had no effect"
unmount /mnt
nfsmount 127.0.0.1:/ /mnt vers=4.2,noresvport || fail "no mount from another port"
refused "root from any port" mkdir /mnt/directory
unmount /mnt
kill $!
wait $!
proof 4.2 refusals $refusals
