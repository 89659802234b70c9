#!/bin/sh
# first.sh PROGRAM VERSION PORT SECOND [OPTION...]: a program of NFStest against $SERVER, with
# SECOND as the other client (second.sh). /out gets what it says, and its packet traces if KEEP_TRACES is set.
program=$1 version=$2 port=$3 second=$4
CAPTURE_HOST=$(ip route | sed -n "s/^default via \([^ ]*\).*/\1/p")
export CAPTURE_HOST
shift 4
for word in ssh tcpdump; do ln -s /job/remote.py /usr/local/bin/$word; done
chmod +x /job/remote.py
ln -sf /job/mount.sh /usr/local/bin/mount
case $version in 4.2) other=4.1 ;; *) other=4.2 ;; esac # NFStest wants another
[ "$PNFS" != off ] || find /lib/modules -name "*layout*" ! -type d -exec rm {} + # drivers, and nothing else has the word
mkdir -p /tmp/traces
export PYTHONPATH=/nfstest PYTHONDONTWRITEBYTECODE=1
: "${VERBOSE:=none}"
echo "client: $(uname -r), NFS $version"
python3 "/nfstest/test/$program" --server "$SERVER" --port "$port" --export / --nfsversion "$version" \
  --client "$second" --client-nfsvers "$other" \
  --tcpdump "exec /usr/local/bin/tcpdump" --tmpdir /tmp/traces --keeptraces --verbose "$VERBOSE" "$@" >/out/said 2>&1
status=$?
[ -z "$KEEP_TRACES" ] || cp -r /tmp/traces /out/traces
cat /out/said
exit $status
