#!/usr/bin/env bash
# links.sh WEFT KERNEL N...: how fast a Linux client and our own write and read over N data servers, each
# behind a link of its own of 200 Mbit/s each way (tbf). Prints a line for each number of links: MiB/s,
# medians of three, and the processor seconds that all servers took. Needs root; everything is in network
# and mount namespaces of its own.
set -eu -o pipefail
here=$(dirname "$(readlink -f "$0")")
if [ "${WEFT_LINKS_INSIDE:-}" != yes ]; then
  WEFT_LINKS_INSIDE=yes exec unshare --net --mount "$0" "$@"
fi
weft=$1 kernel=$2
shift 2
mount -t tmpfs tmpfs /run
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1
work=$(mktemp -d /dev/shm/weft-links.XXXXXX)
servers=()

stop() {
  [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2>/dev/null || true
  wait || true
  servers=()
}
trap 'stop; rm -rf "$work"' EXIT

link() { # I: a network of the data server's own, behind 200 Mbit/s each way
  local inside=(ip netns exec "ds$1") rate=(root tbf rate 200mbit burst 256kb latency 100ms)
  ip netns add "ds$1"
  ip link add "out$1" type veth peer name "in$1"
  ip link set "in$1" netns "ds$1"
  ip addr add "10.77.$1.1/24" dev "out$1"
  ip link set "out$1" up
  "${inside[@]}" ip addr add "10.77.$1.2/24" dev "in$1"
  "${inside[@]}" ip link set lo up
  "${inside[@]}" ip link set "in$1" up
  "${inside[@]}" ip route add default via "10.77.$1.1"
  tc qdisc add dev "out$1" "${rate[@]}"
  "${inside[@]}" tc qdisc add dev "in$1" "${rate[@]}"
}

unlink_all() {
  local name
  for name in $(ip -o netns list | cut -d' ' -f1); do ip netns del "$name"; done
}

start() { # N: a cluster in $work, each data server behind its link
  local n=$1 i ds=()
  for i in $(seq "$n"); do ds+=(--ds "10.77.$i.2:$work/ds-$i"); done
  "$weft" init "$work/c" --mds 10.77.1.1 "${ds[@]}" >/dev/null
  sed -i "s#^cluster_secret_file.*#cluster_secret_file = \"$work/c/cluster.secret\"#" "$work"/c/*.toml
  sed -i "s#^dir = .*#dir = \"$work/mds\"\nadmin_socket = \"$work/admin.sock\"#" "$work/c/mds.toml"
  printf '[export]\nroot_squash = false\n' >>"$work/c/mds.toml"
  for i in $(seq "$n"); do
    link "$i"
    mkdir "$work/ds-$i"
    ip netns exec "ds$i" "$weft" ds --config "$work/c/ds-$i.toml" >"$work/ds-$i.log" 2>&1 &
    servers+=($!)
  done
  "$weft" init --config "$work/c/mds.toml" >"$work/init.log" 2>&1 || { cat "$work/init.log" >&2; exit 1; }
  "$weft" mds --config "$work/c/mds.toml" >"$work/mds.log" 2>&1 &
  servers+=($!)
  until "$weft" status --admin "$work/admin.sock" >/dev/null 2>&1; do sleep 0.1; done
}

cpu() { # processor time of the servers, hundredths of a second
  local pid sum=0 time
  for pid in "${servers[@]}"; do
    time=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
    sum=$((sum + time))
  done
  echo $sum
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

own() { # put|get MIB: by our own client, MiB/s
  local begun ended
  begun=$(date +%s%N)
  case $1 in
    put) "$weft" put --server 127.0.0.1 "$work/file" / ;;
    get) "$weft" get --server 127.0.0.1 /file "$work/back" && cmp "$work/file" "$work/back" ;;
  esac >/dev/null
  ended=$(date +%s%N)
  echo $(($2 * 1000000000 / (ended - begun)))
}

format='%5s %6s %10s %14s %14s %9s %9s %8s\n'
# shellcheck disable=SC2059 # one format for all lines
line() { printf "$format" "$@"; }
echo "MiB/s over links of 200 Mbit/s; Linux $kernel, reading 128 KiB and 15 MiB ahead, and weft put and get"
line links limit write 'read 128 KiB' 'read 15 MiB' put get 'CPU s'
for n; do
  mib=$((n * 24 + 40))
  start "$n"
  figures=$("$here/../kclient/kclient.sh" --kernel "$kernel" --net auto --mem 1200 --timeout 600 --bin "$weft" \
    -- "$here/guest.sh" $mib 2>"$work/guest.log") || { cat "$work/guest.log" >&2; exit 1; }
  of() { awk -v what="$1" '$1 == what { print $2 }' <<<"$figures" | median; }
  head -c ${mib}M /dev/urandom >"$work/file"
  puts='' gets=''
  for _ in 1 2 3; do
    puts+="$(own put $mib)"$'\n'
    gets+="$(own get $mib)"$'\n'
  done
  line "$n" $((n * 200 * 1000000 / 8 / 1048576)) "$(of write)" "$(of near)" "$(of far)" \
    "$(median <<<"${puts%$'\n'}")" "$(median <<<"${gets%$'\n'}")" "$(awk -v t="$(cpu)" 'BEGIN { print t / 100 }')"
  stop
  unlink_all
  rm -rf "${work:?}"/*
done
