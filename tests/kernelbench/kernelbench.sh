#!/usr/bin/env bash
# kernelbench.sh WEFT [KERNEL] [OPTION...]: what an unmodified Linux client (uml unless told) feels of Weft,
# of Ganesha and of the kernel's own server: small files one after the other, and how many RPCs each took,
# how many of them the client waited for, files a second, and the servers' processor time.
#
#   --count N         files of a phase (300)
#   --repeats N       runs against each server, in turn (3); medians are shown
#   --servers 'S...'  which, in this order: weft ganesha knfsd knfsd-async (the first three); `mount` is Weft through FUSE, by
#                     `weft mount` in the client
#   --also FILE       one more Weft, `also`, with the settings of FILE (TOML, as for `weft mds`)
#   --programs DIR    programs that people use instead of small files, those of the Debian in DIR (uml only)
#   --kills SECONDS   ends all of Weft's servers by SIGKILL that often, and starts them again at once
#   --cut SECONDS     with --programs: not measured; the client is gone after so many seconds, as if without power, and
#                     what its programs had been told is durable is looked for from another client
#   --disk DIR        Weft and Ganesha have their files there, not in memory; knfsd cannot
#   --out DIR         keeps what was measured: a folder for each run, and `figures`
#
# Needs root. Everything is in network and mount namespaces of its own, all files in memory unless told. $WEFT_GANESHA
# and $WEFT_KNFSD are folders with the programs of these two. knfsd is in a guest of its own, of the newest
# kernel (uml), exported `sync`, or `async` as knfsd-async.
set -eu -o pipefail
here=$(dirname "$(readlink -f "$0")")
if [ "${WEFT_KERNELBENCH_INSIDE:-}" != yes ]; then
  WEFT_KERNELBENCH_INSIDE=yes exec unshare --net --mount "$0" "$@"
fi
kclient=$here/../kclient/kclient.sh
# Gone with the mount namespace, whatever ends this.
work=/run/kernelbench
own_port=12049 # in this namespace; knfsd has the usual one
data_servers=4
deadline_s=60 # for a server to serve, on a busy machine
stop_s=10     # for a process to end when asked to

die() { echo "kernelbench: $*" >&2; exit 1; }

weft=$1 kernel=uml count=300 repeats=3 servers='' also='' debian='' kills='' cut='' disk='' out=''
shift
case ${1:-} in uml | 6.12 | 6.1) kernel=$1; shift ;; esac
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || die "option '$1' wants a value, or is none (./dev help)"
  case $1 in
    --count) count=$2 ;;
    --repeats) repeats=$2 ;;
    --servers) servers=$2 ;;
    --also) also=$(readlink -e "$2") || die "cannot read $2" ;;
    --programs) debian=$(readlink -e "$2") || die "no folder $2" ;;
    --kills) kills=$2 ;;
    --cut) cut=$2 ;;
    --disk) disk=$(readlink -e "$2") || die "no folder $2" ;;
    --out) out=$(readlink -m "$2") ;;
    *) die "unknown option '$1' (./dev help)" ;;
  esac
  shift 2
done
[[ $count =~ ^[1-9][0-9]*$ && $repeats =~ ^[1-9][0-9]*$ ]] || die "--count and --repeats want numbers"
[[ $kills =~ ^([1-9][0-9]*)?$ && $cut =~ ^([1-9][0-9]*)?$ ]] || die "--kills and --cut want seconds"
[ -z "$cut" ] || [ -n "$debian" ] || die "--cut is for --programs"
[ -z "$debian" ] || [ "$kernel" = uml ] || die "--programs is for uml, which sees this machine's folders"
work_script=$here/guest.sh phases=$here/guest.phases
[ -z "$debian" ] || work_script=$here/programs.sh phases=$here/programs.phases
if [ -z "$servers" ]; then
  servers="weft ${also:+also }ganesha"
  [ -n "$disk" ] || servers+=" knfsd"
fi

for server in $servers; do
  case $server in
    weft | mount) ;;
    ganesha) [ -n "${WEFT_GANESHA:-}" ] || die "WEFT_GANESHA says where Ganesha is (./dev does)" ;;
    knfsd*) [ -z "$disk" ] || die "knfsd has its files in memory: leave it out with --disk" ;;&
    knfsd | knfsd-async) [ -n "${WEFT_KNFSD:-}" ] || die "WEFT_KNFSD says where knfsd is (./dev does)" ;;
    also) [ -n "$also" ] || die "the server 'also' is what --also FILE is for" ;;
    *) die "no server '$server': weft, mount, also, ganesha, knfsd or knfsd-async" ;;
  esac
done

# Where the files of the server are that runs, if not in memory.
on_disk=''

# What is to be ended: the servers' processes (with knfsd the rig of its guest), and the client's rig.
running=()

end_all() {
  local pid tries
  [ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true
  for pid in ${running[@]+"${running[@]}"}; do
    tries=$((stop_s * 10))
    while kill -0 "$pid" 2>/dev/null && [ $tries -gt 0 ]; do
      sleep 0.1
      tries=$((tries - 1))
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  running=()
}

leave() {
  local status=$?
  trap - EXIT
  end_all
  [ $status = 0 ] || keep || true
  cd /
  [ ! -d "$work/server" ] || drop_server_folder || true
  rm -rf "$work"
  exit $status
}

make_server_folder() {
  mkdir "$work/server"
  if [ -n "$disk" ]; then
    on_disk=$(mktemp -d "$disk/kernelbench.XXXXXX")
    mount --bind "$on_disk" "$work/server"
  fi
}

drop_server_folder() {
  rm -rf "$work"/server/*
  if [ -n "$on_disk" ]; then
    umount "$work/server"
    rmdir "$on_disk"
    on_disk=''
  fi
  rmdir "$work/server"
}

keep() {
  [ -n "$out" ] || return 0
  mkdir -p "$out"
  cp -r "$raw"/. "$out"
}

keep_logs() { # FOLDER
  local log
  for log in "$work"/server/*.log; do
    [ ! -e "$log" ] || cp "$log" "$1"
  done
}

# until_true WHAT LOG COMMAND...: polls; a server that has ended, or takes too long, is shown by its log.
until_true() {
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

# --- the servers: each start_X sets `port`, and if need be `address` (else this machine), `pids`, whose
# --- processor time is the server's, and `dir_delegations` (the client shall not want any: off)
# --- and `way` (weft: mounted by `weft mount`)

# Root in the client is root here, as the other servers are told too.
with_root() { # FILE
  if grep -q '^ *root_squash' "$1"; then cat "$1"
  elif grep -q '^\[export\]' "$1"; then sed '/^\[export\]/a root_squash = false' "$1"
  else cat "$1" && printf '\n[export]\nroot_squash = false\n'; fi
}

weft() {
  exec "$weft" up --json --listen "0.0.0.0:$port" --data-servers $data_servers --dir "$work/server/weft" \
    --config "$work/server/weft.toml" >"$work/server/endpoints" 2>>"$work/server/weft.log"
}

# Killed until there is a file `calm`.
weft_with_kills() {
  local server timer
  trap 'kill -KILL $server $timer 2>/dev/null; exit' TERM
  until [ -e "$work/server/calm" ]; do
    weft &
    server=$!
    sleep "$kills" &
    timer=$!
    # Nothing else ends it.
    wait -n $server $timer && kill -KILL $server || exit 1
    wait $server 2>/dev/null || true
    echo "kernelbench: killed" >>"$work/server/weft.log"
  done
  weft &
  server=$!
  wait $server
}

start_weft() { # [FILE]
  port=$own_port
  with_root "${1:-/dev/null}" >"$work/server/weft.toml"
  if [ -z "$kills" ]; then
    weft &
    pids=$!
  else
    weft_with_kills & # whose processor time is many processes'
  fi
  running+=($!)
  until_true weft "$work/server/weft.log" test -s "$work/server/endpoints"
}

start_mount() { start_weft && way=weft; }
start_also() { start_weft "$also"; }

ganesha() {
  LD_LIBRARY_PATH=$WEFT_GANESHA/usr/lib/x86_64-linux-gnu:$WEFT_GANESHA/usr/lib/ganesha \
    exec "$WEFT_GANESHA/usr/bin/ganesha.nfsd" "$@"
}

accepts() { true <>"/dev/tcp/127.0.0.1/$1"; }

start_ganesha() {
  local log=$work/server/ganesha.log
  port=$own_port
  # it takes GET_DIR_DELEGATION for no operation at all, and listing a directory fails with EREMOTEIO
  # on clients from Linux 6.19 on (nfs-ganesha issue 1385, in its versions before 9.11)
  dir_delegations=off
  mkdir -p "$work/server/export" "$work/server/recovery" /run/ganesha
  cat >"$work/server/ganesha.conf" <<END
NFS_CORE_PARAM {
  Protocols = 4;
  NFS_Port = $port;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Plugins_Dir = "$WEFT_GANESHA/usr/lib/x86_64-linux-gnu/ganesha";
}
NFSv4 {
  Graceless = true;
  Only_Numeric_Owners = true; # the guest has nobody to ask for names
  RecoveryRoot = "$work/server/recovery";
}
EXPORT {
  Export_Id = 1;
  Path = "$work/server/export";
  Pseudo = "/";
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  FSAL { Name = VFS; }
}
END
  ganesha -F -f "$work/server/ganesha.conf" -L "$log" -p "$work/server/ganesha.pid" &
  running+=($!) pids=$!
  until_true ganesha "$log" accepts $port
}

start_knfsd_guest() { # sync|async
  local log=$work/server/knfsd.log said=$work/server/knfsd.out programs=() program
  for program in exportfs nfsdcld rpc.mountd rpc.nfsd; do
    programs+=(--bin "$WEFT_KNFSD/usr/sbin/$program")
  done
  "$kclient" --kernel uml --net auto --mem 1600 --timeout 7200 --hostname knfsd "${programs[@]}" \
    --bin mkfs.ext4 --add "$here/../guest/common.sh" --add /etc/mke2fs.conf:/etc/mke2fs.conf \
    --add /etc/netconfig:/etc/netconfig --add /etc/services:/etc/services \
    -- "$here/knfsd.sh" "$1" >"$said" 2>"$log" &
  running+=($!)
  port=2049
  until_true knfsd "$said" grep -q '^serving ' "$said"
  read -r _ address knfsd_kernel < <(grep '^serving ' "$said")
}

start_knfsd() { start_knfsd_guest sync; }
start_knfsd-async() { start_knfsd_guest async; }

# --- the runs

run_guest() { # FOLDER HOSTNAME SCRIPT ARG...; deadlines are the rig's
  local folder=$1 hostname=$2 script=$3 seconds=$((300 + count)) settings=(--env "DIR_DELEGATIONS=$dir_delegations")
  shift 3
  [ "$kernel" = uml ] || seconds=$((900 + 10 * count))
  settings+=(--env "MOUNT=$way")
  [ "$way" != weft ] || settings+=(--bin "$weft")
  [ -z "$address" ] || settings+=(--env "SERVER=$address")
  [ -z "$debian" ] || { settings+=(--share "$debian:/host" --add "$here/debian.sh"); seconds=1800; }
  mkdir -p "$folder"
  : >"$folder/cpu"
  KERNELBENCH_PIDS=$pids KERNELBENCH_CPU=$folder/cpu \
    "$kclient" --kernel "$kernel" --net auto --mem 1024 --timeout $seconds --hostname "$hostname" \
    --add "$here/../guest/common.sh" --add "$here/phases.sh" --bin "$work/files" --hook "$here/cpu.sh" --out "$folder" \
    "${settings[@]}" -- "$script" "$@" >"$folder/stdout" 2>"$folder/stderr" &
  running+=($!)
  wait $!
}

failed() { # FOLDER
  keep_logs "$1"
  cat "$1/stdout" "$1/stderr" >&2
  die "the run failed"
}

measured_run() { # FOLDER
  run_guest "$1" kernelbench "$work_script" "$port" "$count" || failed "$1"
}

# The most that each program was told: PROGRAM=NUMBER.
acknowledged() { # FILE
  awk '$1 == "acked" { if ($3 > most[$2]) most[$2] = $3 + 0 } END { for (p in most) print p "=" most[p] }' "$1"
}

# The rig says 125 of a guest that is gone without a word.
cut_run() { # FOLDER
  local status=0 programs
  run_guest "$1/cut" cut "$here/cut.sh" "$port" work "$cut" || status=$?
  if [ $status != 125 ] || grep -q '^FAIL' "$1/cut/stdout"; then failed "$1/cut"; fi
  : >"$work/server/calm"
  mapfile -t programs < <(acknowledged "$1/cut/stdout")
  run_guest "$1" after-cut "$here/cut.sh" "$port" check "${programs[@]}" || failed "$1"
  cat "$1/stdout"
}

# A server that starts anew for each run owes nothing to the runs before.
run() { # SERVER REPEAT
  local folder=$raw/$1-$2
  address='' pids='' dir_delegations=on way=kernel
  make_server_folder
  "start_$1"
  if [ -n "$cut" ]; then cut_run "$folder"; else measured_run "$folder"; fi
  end_all
  keep_logs "$folder"
  drop_server_folder
  [ -n "$cut" ] || figures "$folder" "$1" "$2" >>"$raw/figures"
}

# What a run says: lines `SERVER REPEAT PHASE WHAT NUMBER`, each number for one file.
figures() { # FOLDER SERVER REPEAT
  local phase files seconds
  while read -r phase files seconds; do
    awk -v seconds="$seconds" -v files="$files" -v phase="$phase" -f "$here/figures.awk" \
      "$1/$phase.before" "$1/$phase.waited" "$1/$phase.total" "$1/cpu" |
      sed "s/^/$2 $3 $phase /"
  done <"$1/times"
}

# --- what is said about it

machine() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
  echo "$(nproc) processors ($model), Linux $(uname -r)"
}

ganesha_version() { (ganesha -v) | sed -n 's/^NFS-Ganesha Release = V*//p'; }

describe() { # SERVER
  local killed=${kills:+, killed every $kills s}
  case $1 in
    weft) echo "$("$weft" --version), $data_servers data servers, default configuration$killed" ;;
    mount) echo "the same servers, mounted by \`weft mount\` in the client: its processor time is the client's" ;;
    also) echo "the same$killed with $also: $(grep -v '^ *\(#.*\)*$' "$also" | tr '\n' ' ')" ;;
    ganesha) echo "Ganesha $(ganesha_version), VFS; the client wants no directory delegations" ;;
    knfsd*) echo "the server of Linux $knfsd_kernel in a guest with one processor (uml), ext4 in" \
      "memory, $([ "$1" = knfsd ] && echo sync || echo async)" ;;
  esac
}

report() {
  local server where='in memory'
  local what="$count files of 8 KiB a phase"
  [ -z "$debian" ] || what="programs that people use"
  echo "Linux $(sed -n 's/^kernel=//p' "$raw"/*-1/meta.txt | head -1) as the client: $what, medians of $repeats"
  [ -z "$disk" ] || where="on $(findmnt -no FSTYPE -T "$disk")"
  echo "on $(machine), all files $where"
  for server in $servers; do echo "$server: $(describe "$server")"; done
  echo
  awk -v servers="$servers" -v repeats="$repeats" -f "$here/table.awk" "$phases" "$raw/figures"
}

# A guest of uml overlooks a packet now and then (one in a thousand) until the next one comes. That one is
# the sender's second try, after 200 ms that no server took: it shall come sooner. (Kernels before 6.11
# cannot be told.) The guests do the same.
try_again_soon() {
  local wait_us=/proc/sys/net/ipv4/tcp_rto_min_us
  [ ! -e $wait_us ] || echo 10000 >$wait_us
}

# Some machines are told BBR, whose pacing waits tens of milliseconds in the middle of an answer on a
# connection that was idle; knfsd's guest is not. Every namespace may choose reno, and where nothing is
# lost it does what Linux does of itself (cubic).
no_pacing() { sysctl -qw net.ipv4.tcp_congestion_control=reno; }

mount -t tmpfs tmpfs /run
ip link set lo up
sysctl -qw net.ipv4.ip_forward=1
no_pacing
try_again_soon
raw=$work/raw
mkdir -p "$raw"
export TMPDIR=$work
trap leave EXIT
trap 'exit 130' INT TERM
cc -static -O2 -Wall -Wextra -o "$work/files" "$here/files.c"
for repeat in $(seq "$repeats"); do
  for server in $servers; do
    echo "kernelbench: $server, run $repeat of $repeats" >&2
    run "$server" "$repeat"
  done
done
[ -n "$cut" ] || report | tee "$raw/table"
keep
