#!/usr/bin/env bash
# nfstest.sh NFSTEST WEFT OUT [OPTION...] [-- NFSTEST-OPTION...]: a program of NFStest (its source, version 3.2, is
# in the folder NFSTEST) with two unmodified Linux clients against Weft, or the kernel's own server. Prints each
# assertion that did not hold as `TEST ASSERTION`, and `N passed, N failed`. OUT gets `stdout`, all that the program
# said, the servers' logs, and in `first` the kernel's messages and, if $KEEP_TRACES is set, the packet traces.
#
#   --program P    nfstest_delegation
#   --kernel K     of the client under test (uml); the other client is uml
#   --version V    of NFS, the client under test (4.1); the other one has 4.2, or 4.1 if this is 4.2
#   --pnfs on|off  off: the clients have no layout drivers (off)
#   --server S     weft, or knfsd ($WEFT_KNFSD is a folder with its programs)
#   --config FILE  settings of Weft (without: root_squash = false)
#   --timeout S    of the whole program (1800; it takes 230 with uml, 400 to 700 with the others)
#
# Needs root, what kclient.sh needs, tcpdump and python3. Everything is in network and mount namespaces of its own.
# Weft has a network namespace to itself: what goes there from both clients passes one interface, and of that the
# traces are. NFStest's ssh and tcpdump are those of remote.py.
#
# NFStest expects what no longer is (docs/semantics.md says what was seen with it mended):
# - with layouts, Linux asks for one in the COMPOUND of OPEN and may get none: NFStest takes the OPEN for failed;
# - with 4.2, a delegation stands in place of an open stateid (RFC 9754): NFStest misses that and its CLOSE;
# - what a client sends between a CB_RECALL and its answer to it counts as sent before the recall, now and then.
# shellcheck disable=SC2317 # what traps run, and what is called by the server's name
set -eu -o pipefail
here=$(dirname "$(readlink -f "$0")")
if [ "${NFSTEST_INSIDE:-}" != yes ]; then
  NFSTEST_INSIDE=yes exec unshare --net --mount "$0" "$@"
fi
die() { echo "nfstest: $*" >&2; exit 1; }

nfstest=$(readlink -e "$1") weft=$(readlink -e "$2") out=$(readlink -m "$3")
shift 3
program=nfstest_delegation kernel=uml version=4.1
server=weft config='' timeout=1800 pnfs=off
tests=$here/..
while [ $# -gt 0 ]; do
  [ "$1" != -- ] || { shift; break; }
  [ $# -ge 2 ] || die "option '$1' wants a value, or is none"
  case $1 in
    --program) program=$2 ;; --kernel) kernel=$2 ;; --version) version=$2 ;; --pnfs) pnfs=$2 ;; --server) server=$2 ;;
    --config) config=$(readlink -e "$2") || die "cannot read $2" ;; --timeout) timeout=$2 ;;
    *) die "unknown option '$1'" ;;
  esac
  shift 2
done
kclient=$tests/kclient/kclient.sh
work=/run/nfstest deadline_s=60 stop_s=10
weft_address=10.213.99.2 router_address=10.213.99.1

running=()
leave() {
  local status=$? pid tries
  trap - EXIT
  [ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true
  for pid in ${running[@]+"${running[@]}"}; do
    tries=$((stop_s * 10))
    while kill -0 "$pid" 2>/dev/null && [ "$tries" -gt 0 ]; do sleep 0.1; tries=$((tries - 1)); done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  cp "$work"/*.log "$out" 2>/dev/null || true
  cd / && rm -rf "$work"
  exit "$status"
}

until_true() { # WHAT LOG COMMAND...
  local what=$1 log=$2 tries=$((deadline_s * 10))
  shift 2
  until "$@" 2>/dev/null; do
    tries=$((tries - 1))
    if [ $tries = 0 ] || ! kill -0 "${running[-1]}" 2>/dev/null; then
      cat "$log" >&2
      die "$what does not serve"
    fi
    sleep 0.1
  done
}

# Python, with what NFStest loads of it; sets PYTHON.
find_python() {
  local program base library
  program=/usr/bin/python3
  [ -x $program ] || program=$(command -v python3)
  base=$("$program" -c 'import sys; print(sys.base_prefix)')
  library=$("$program" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
  PATH=$(dirname "$program"):$PATH
  PYTHON=(--bin python3 --env "PYTHONHOME=$base" --env "PNFS=$pnfs" --share "$library:$library")
  while read -r library; do
    PYTHON+=(--add "$library:$library")
  done < <(ldd "$library"/lib-dynload/_{ctypes,hashlib,multiprocessing,socket,posixsubprocess,struct}*.so 2>/dev/null |
    sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u)
}

start_weft() {
  ip link add toweft type veth peer name eth0 && ip addr add "$router_address/30" dev toweft && ip link set toweft up
  ip netns add weft && ip link set eth0 netns weft
  ip -n weft addr add "$weft_address/30" dev eth0 && ip -n weft link set eth0 up && ip -n weft link set lo up
  ip -n weft route add default via "$router_address"
  capture=toweft address=$weft_address port=2049
  { cat "${config:-/dev/null}"; [ -n "$config" ] || printf '[export]\nroot_squash = false\n'; } >"$work/weft.toml"
  ip netns exec weft "$weft" up --json --listen "$address:$port" --data-servers 4 --dir "$work/weft" \
    --config "$work/weft.toml" >"$work/endpoints" 2>"$work/weft.log" &
  running+=($!)
  until_true weft "$work/weft.log" test -s "$work/endpoints"
}

start_knfsd() {
  local programs=() one
  for one in exportfs nfsdcld rpc.mountd rpc.nfsd; do programs+=(--bin "$WEFT_KNFSD/usr/sbin/$one"); done
  "$kclient" --kernel uml --net auto --mem 1600 --timeout 7200 --hostname knfsd "${programs[@]}" \
    --bin mkfs.ext4 --add "$tests/guest/common.sh" --add /etc/mke2fs.conf:/etc/mke2fs.conf \
    --add /etc/netconfig:/etc/netconfig --add /etc/services:/etc/services \
    -- "$tests/kernelbench/knfsd.sh" sync >"$work/knfsd.out" 2>"$work/knfsd.log" &
  running+=($!)
  until_true knfsd "$work/knfsd.log" grep -q '^serving ' "$work/knfsd.out"
  read -r _ address _ < <(grep '^serving ' "$work/knfsd.out")
  port=2049 capture=$(ip route get "$address" | sed -n 's/.* dev \([^ ]*\) .*/\1/p')
}

start_second() {
  "$kclient" --kernel uml --net auto --timeout 7200 --hostname second "${PYTHON[@]}" \
    --add "$here/remote.py" --add "$here/mount.sh" -- "$here/second.sh" >"$work/second.out" 2>"$work/second.log" &
  running+=($!)
  until_true "the second client" "$work/second.log" grep -q '^serving ' "$work/second.out"
  read -r _ second < <(grep '^serving ' "$work/second.out")
}

start_capture() {
  python3 "$here/remote.py" serve 2223 tcpdump -i "$capture" -n -B 16384 -s 0 -U -w - tcp \
    >"$work/capture.out" 2>"$work/capture.log" &
  running+=($!)
  until_true capturing "$work/capture.log" grep -q listening "$work/capture.out"
}

mkdir -p "$out"
mount -t tmpfs tmpfs /run
mkdir -p "$work" /run/netns
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1
export TMPDIR=$work
trap leave EXIT
trap 'exit 130' INT TERM
find_python
mkdir "$work/nfstest" && cp -r "$nfstest"/. "$work/nfstest" && chmod -R u+w "$work/nfstest"
python3 -m compileall -q "$work/nfstest/nfstest" "$work/nfstest/packet"
"start_$server"
start_second
start_capture
"$kclient" --kernel "$kernel" --net auto --mem 1024 --timeout "$timeout" --hostname first "${PYTHON[@]}" \
  --share "$work/nfstest:/nfstest" --add "$here/remote.py" --add "$here/mount.sh" --env "SERVER=$address" \
  --env "KEEP_TRACES=${KEEP_TRACES:-}" --env "VERBOSE=${VERBOSE:-info|dbg1}" \
  --out "$out/first" -- "$here/first.sh" "$program" "$version" "$port" "$second" "$@" \
  >"$out/stdout" 2>"$work/first.log" &
running+=($!)
wait $! && status=0 || status=$?
tail -1 "$work/first.log" >&2
grep -qE '^[0-9]+ tests \(' "$out/stdout" || { tail -20 "$out/stdout" >&2; die "the program broke off"; }
sed -n -E "s/^ *TEST: Running test '(.*)'/=\1/p; s/^ *(FAIL|BUG): (.*)/\2/p" "$out/stdout" |
  awk '/^=/ { test = substr($0, 2); next } { print test, $0 }'
sed -n -E 's/^[0-9]+ tests \(([0-9]+ passed)(, ([0-9]+ failed))?.*/\1, \3/p' "$out/stdout" | sed 's/, $/, 0 failed/'
exit "$status"
