#!/bin/sh
# resends.sh PORT BYTES: a client has sent what it wrote when its data servers die (`host kill`), and closes the file. They
# come back (`host start`), and another client replaces the file (`host replace`). Whatever this
# client sends later, the file stays as the other one closed it (`host look`).
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
# WRITE leaves at once, and COMMIT when the file is closed.
nfsmount "$SERVER:/" /mnt "vers=4.2,port=$1,write=eager" || fail "mount"
# Pages that are dirty, or dirty again, are written 15 s after the file became dirty.
echo 1500 >/proc/sys/vm/dirty_expire_centisecs
echo 100 >/proc/sys/vm/dirty_writeback_centisecs
sent /mnt/file "$2" /tmp/go &
writer=$!
until_true 20 'the file is not sent' [ -e /tmp/go.sent ]
host kill || fail "host kill"
: >/tmp/go
sleep 2
host start || fail "host start"
wait $writer || fail "close: $?"
host replace || fail "host replace"
sleep 14
host look || fail "host look"
grep -q n /mnt/file || fail "it reads $(head -c 20 /mnt/file)"
grep -q o /mnt/file && fail "it has old bytes"
unmount /mnt
