#!/usr/bin/env bash
# kclient.sh - run a script inside a throw-away machine whose kernel is a stock Debian kernel,
# that is, with the unmodified Linux NFSv4.1/4.2 + pNFS client.
#
# Two kinds of machine:
#   uml       Debian's user-mode-linux (from sid): a new client; the kernel runs as a process at
#             native speed (a system call costs 30 us), boots in about 1 s, one CPU.
#             Needs root and /dev/net/tun.
#   5.10 6.1 6.12 7.3
#             Debian's cloud kernels under QEMU without KVM: the exact shipped kernels of Debian 11,
#             12 and 13 (7.3 from its backports); code runs about 15 times slower, boots in 3-4 s.
#             Needs no privileges (--net user).
#
#   kclient.sh [options] -- SCRIPT [ARG...]     run SCRIPT (a file of the host) in the guest
#   kclient.sh [options] -c 'COMMANDS'          run COMMANDS in the guest
#   kclient.sh prepare [--kernel K]             only fill the cache
#
# Options
#   --kernel K        uml, 5.10, 6.1, 6.12, 7.3 (default: $KCLIENT_KERNEL or 6.12)
#   --net auto        as root with /dev/net/tun: a tap of its own, 10.214.x.y/30; else user
#                     (default). The guest reaches every address of the host except 127/8, so
#                     servers listen on 0.0.0.0
#   --net user        QEMU's own network (not uml): the host's 127.0.0.1 is 10.0.2.2 in the guest
#   --mem MB (768)  --cpus N (1, QEMU)  --timeout S (300, the script's time)
#   --hostname H      default kc<number>; it is part of the NFSv4 client owner, so two guests on
#                     one server must differ
#   --add SRC[:DEST]  copy a host file or folder into the guest (default DEST /job/<name>)
#   --share DIR:DEST  show a host folder in the guest, read-only (QEMU: as it is now, from an image)
#   --bin PROG        copy a host program and its shared libraries to /usr/local/bin/<name>
#   --env K=V         set in the script's environment (SERVER=… replaces the host's address)
#   --out DIR         gets what the script leaves in /out, plus console.log, dmesg.txt, meta.txt
#   --hook PROG       the script's `host WORD...` runs `PROG WORD...` on the host and returns its
#                     exit status (kill a server, restart it, ...)
#   --pcap FILE       capture the guest's traffic (read it with tshark -r)
#   --append 'K=V'    more kernel command line (also $KCLIENT_APPEND, for every run)
#   --verbose         kernel console on stderr as well
# --add, --share, --bin and --env may be repeated.
#
# Exit status: the script's own; 124 timeout; 125 the guest died before the script ended (panic,
# bad boot); 126 the rig could not start. The script's stdout and stderr go to this program's
# stdout; remarks of the rig go to stderr.
#
# In the guest: busybox tools; $SERVER is the host's address; `nfsmount HOST:/PATH DIR [OPTIONS]`
# mounts (vers=4.2 unless told), `pnfsstat DIR` prints the proof that pNFS is (not) used,
# `host WORD...` calls the hook.
#
# Needs on the host: busybox-static cpio kmod xz-utils zstd lz4 nfs-common iproute2, and
# qemu-system-x86 for all but uml; tcpdump for --pcap with uml. Kernels come from the package archive
# apt is configured for, also those of its suites that apt is not configured for, and are kept in
# ${WEFT_CACHE:-$HOME/.cache/weft}.
# KCLIENT_UML_SUITE (sid) and KCLIENT_UML_VERSION (newest of the suite) pin the uml kernel.
set -u -o pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

CACHE=${WEFT_CACHE:-${HOME:-/tmp}/.cache/weft}
SELF=$(readlink -f "$0")
GUEST_PARTS=$(dirname "$SELF")/guest

say() { echo "kclient: $*" >&2; }
die() { say "$*"; exit 126; }
need() {
  local program
  for program; do
    command -v "$program" >/dev/null 2>&1 || die "missing program '$program' (packages: --help)"
  done
}
usage() { sed -n '2,/^set -u/p' "$SELF" | sed '$d;s/^# \{0,1\}//'; }

# Modules the guest gets (with whatever they depend on). Layout drivers and the like are loaded on
# demand by the kernel itself, as on any Linux client.
MODULES="virtio_pci virtio_net virtio_console virtio_rng virtio_blk ext4 xfs
nfs nfsv4 nfs_layout_nfsv41_files nfs_layout_flexfiles blocklayoutdriver
sunrpc auth_rpcgss lockd grace nfs_acl tls loop nfsd fuse"

# --- kernels: package -> unpacked tree ---------------------------------------------------------

# Options for apt-get and apt-cache; none of them is the machine's own apt.
APT=()

# Where the machine's own apt finds the repository that a suite is in: security suites have one of
# their own.
repository() { # SUITE
  local name=debian
  case $1 in *-security) name=debian-security ;; esac
  # shellcheck disable=SC2016 # apt's own variable
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    grep -m1 "/$name/*$"
}

# Sets APT to a private state with these suites: the machine's own sources stay as they are. A suite
# that is not updated any more is still what its signature says, hence no check of its date.
other_suites() { # TMP SUITE...
  local tmp=$1 apt=$1/apt suite mirror
  shift
  mkdir -p "$apt"/{lists,archives}/partial
  for suite; do
    mirror=$(repository "$suite")
    [ -z "$mirror" ] || printf 'deb [target=Packages signed-by=%s] %s %s main\n' \
      /usr/share/keyrings/debian-archive-keyring.gpg "$mirror" "$suite"
  done >"$apt/sources.list"
  [ -s "$apt/sources.list" ] || die "apt has no Debian archive configured: no suite $*"
  printf '%s\n' "Dir::State::lists \"$apt/lists\";" "Dir::Cache \"$apt\";" \
    "Dir::Etc::sourcelist \"$apt/sources.list\";" 'Dir::Etc::sourceparts "-";' \
    'Acquire::Languages "none";' 'Acquire::Check-Valid-Until "false";' \
    'APT::Sandbox::User "root";' >"$apt/apt.conf"
  APT=(-c "$apt/apt.conf")
  apt-get "${APT[@]}" -q update >"$tmp/apt.log" 2>&1 ||
    { tail -5 "$tmp/apt.log" >&2; rm -rf "$tmp"; die "cannot read the lists of $*"; }
}

download() { # TMP PACKAGE...; leaves the packages in TMP/d
  local tmp=$1
  shift
  mkdir -p "$tmp/d"
  (cd "$tmp/d" && apt-get ${APT[@]+"${APT[@]}"} -o APT::Sandbox::User=root -q download "$@") \
    >"$tmp/apt.log" 2>&1 ||
    { tail -5 "$tmp/apt.log" >&2; rm -rf "$tmp"
      die "cannot download $1 (network? stale lists: apt-get update)"; }
}

# The newest of a cloud kernel's versions. Its packages are named so up to Debian 12's own.
kernel_version() { # KERNEL
  local pattern
  case $1 in
    5.10 | 6.1) pattern="${1//./\\.}\.0-[0-9]+" ;;
    7.3) pattern="7\.([3-9]|[1-9][0-9])\.[0-9]+\+(deb[0-9]+|bpo)" ;; # or newer
    *) pattern="${1//./\\.}\.[0-9]+\+(deb[0-9]+|bpo)" ;;
  esac
  apt-cache ${APT[@]+"${APT[@]}"} pkgnames "linux-image-${1%%.*}." |
    sed -nE "s/^linux-image-($pattern-cloud-amd64)\$/\1/p" | sort -V | tail -1
}

cloud_tree() { # KERNEL; sets KTREE
  KTREE=$CACHE/kernel-$1
  [ -e "$KTREE/.done" ] && return
  need apt-get apt-cache dpkg-deb
  local version tmp package packages image
  tmp=$(mktemp -d "$CACHE/.dl.XXXXXX") || exit 126
  case $1 in # 6.1 and 6.12 are Debian 12's
    5.10) other_suites "$tmp" bullseye bullseye-security ;;
    7.3) other_suites "$tmp" trixie-backports ;;
  esac
  version=$(kernel_version "$1")
  [ -n "$version" ] ||
    { rm -rf "$tmp"; die "apt knows no cloud kernel $1 (apt-get update? Debian 12 is needed)"; }
  say "fetching linux-image-$version"
  # 7.3 is in several packages, and its linux-image has no file
  mapfile -t packages < <(apt-cache ${APT[@]+"${APT[@]}"} pkgnames linux- |
    grep -xE "linux-(image|base|binary|modules)-${version//+/\\+}")
  download "$tmp" "${packages[@]}"
  for package in "$tmp"/d/*.deb; do
    dpkg-deb -x "$package" "$tmp/x" || die "cannot unpack $package"
  done
  [ -d "$tmp/x/lib/modules" ] || { mkdir -p "$tmp/x/lib"; mv "$tmp/x/usr/lib/modules" "$tmp/x/lib/"; }
  image=$tmp/x/lib/modules/$version/vmlinuz
  [ ! -e "$image" ] || { mkdir -p "$tmp/x/boot"; mv "$image" "$tmp/x/boot/vmlinuz-$version"; }
  echo "linux-image-$version" >"$tmp/x/.done"
  rm -rf "$KTREE"; mv "$tmp/x" "$KTREE" || die "cannot place $KTREE"
  rm -rf "$tmp"
}

uml_tree() { # sets KTREE; KTREE/jail is what UML runs in (its own, newer libc)
  KTREE=$CACHE/kernel-uml
  [ -e "$KTREE/.done" ] && return
  need apt-get dpkg-deb
  local tmp jail library suite=${KCLIENT_UML_SUITE:-sid} version
  say "fetching user-mode-linux from $suite"
  tmp=$(mktemp -d "$CACHE/.dl.XXXXXX") || exit 126
  other_suites "$tmp" "$suite"
  version=${KCLIENT_UML_VERSION:+=$KCLIENT_UML_VERSION}
  download "$tmp" "user-mode-linux${version:-/$suite}" "libc6/$suite" "libgcc-s1/$suite"
  mkdir -p "$tmp/x/lib"
  for library in user-mode-linux:x libc6:lc libgcc-s1:lc; do
    dpkg-deb -x "$tmp/d/${library%:*}"_*.deb "$tmp/${library#*:}" || die "cannot unpack ${library%:*}"
  done
  mv "$tmp/x/usr/lib/uml/modules" "$tmp/x/lib/modules"
  jail=$tmp/x/jail
  mkdir -p "$jail"/{lib64,lib/x86_64-linux-gnu,dev,proc,tmp,w,root}
  for library in libc.so.6 libm.so.6 libgcc_s.so.1; do
    cp -L "$tmp/lc/usr/lib/x86_64-linux-gnu/$library" "$jail/lib/x86_64-linux-gnu/" || die "no $library"
  done
  cp -L "$tmp/lc/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$jail/lib64/" || die "no loader"
  mv "$tmp/x/usr/bin/linux.uml" "$jail/linux"
  basename "$tmp"/d/user-mode-linux_*.deb >"$tmp/x/.done"
  rm -rf "$KTREE"; mv "$tmp/x" "$KTREE" || die "cannot place $KTREE"
  rm -rf "$tmp"
}

# The ELF image inside a vmlinuz, for QEMU's PVH entry: nothing to decompress in the guest.
unpack_vmlinux() { # VMLINUZ OUT
  local offset magic
  for magic in '\x28\xb5\x2f\xfd:zstd' '\x02\x21\x4c\x18:lz4' '\xfd7zXZ\x00:xz'; do
    offset=$(grep -obUaP "${magic%:*}" "$1" | head -1 | cut -d: -f1)
    [ -n "$offset" ] || continue
    tail -c +$((offset + 1)) "$1" | "${magic##*:}" -dcq >"$2" 2>/dev/null
    [ "$(head -c 4 "$2" | od -An -tx1 | tr -d ' \n')" = 7f454c46 ] && return 0
  done
  rm -f "$2"
  return 1
}

copy_program() { # PROGRAM ROOT DIR: the program and the shared objects it wants
  local program library
  program=$(readlink -f "$1") || return 1
  mkdir -p "$2/$3"
  cp -L "$program" "$2/$3/$(basename "$1")" || return 1
  ldd "$program" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
    [ -e "$2$library" ] || { mkdir -p "$2$(dirname "$library")"; cp -L "$library" "$2$library"; }
  done
  return 0
}

# --- the boot image: kernel and base.cpio, cached -------------------------------------------------

stage_modules() { # STAGE
  local from=$KTREE/lib/modules/$KVER to=$1/lib/modules/$KVER module file
  mkdir -p "$to"
  cp "$from"/modules.order "$from"/modules.builtin "$from"/modules.builtin.modinfo "$to"/ 2>/dev/null
  depmod -b "$KTREE" "$KVER" 2>/dev/null
  for module in $MODULES; do # a line of modules.dep names the module and all it depends on
    awk -F: -v m="$module" '
      function base(p) { sub(/.*\//, "", p); sub(/\.ko.*/, "", p); gsub(/-/, "_", p); return p }
      base($1) == base(m) { print $1 $2; exit }' "$from/modules.dep"
  done | tr ' ' '\n' | sort -u | while read -r file; do
    [ -n "$file" ] || continue
    mkdir -p "$to/$(dirname "$file")"
    case $file in
      *.xz) xz -dc "$from/$file" >"$to/${file%.xz}" ;;
      *.zst) zstd -dcq "$from/$file" >"$to/${file%.zst}" ;;
      *) cp "$from/$file" "$to/$file" ;;
    esac
  done
  depmod -b "$1" "$KVER" || die "depmod failed"
}

stage_root() { # STAGE
  local stage=$1 busybox link
  busybox=$(command -v busybox) || die "busybox-static is needed"
  ldd "$busybox" >/dev/null 2>&1 && die "busybox is not static (apt-get install busybox-static)"
  mkdir -p "$stage"/{bin,sbin,usr/bin,usr/sbin,usr/local/bin,etc,dev,proc,sys,tmp,run,out,job,mnt,root,kc/bin}
  ln -s /proc/mounts "$stage/etc/mtab"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$stage/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$stage/etc/group"
  printf 'tcp 6 TCP\nudp 17 UDP\n' >"$stage/etc/protocols"
  cp "$busybox" "$stage/bin/busybox"
  "$busybox" --list-full | while read -r link; do
    [ -e "$stage/$link" ] || ln -s /bin/busybox "$stage/$link"
  done
  install -m 755 "$GUEST_PARTS/init" "$stage/init"
  install -m 755 "$GUEST_PARTS/stage2" "$stage/kc/stage2"
  install -m 755 "$GUEST_PARTS"/{nfsmount,pnfsstat,host} "$stage/kc/bin/"
  [ -x /sbin/mount.nfs ] || die "missing /sbin/mount.nfs (apt-get install nfs-common)"
  copy_program /sbin/mount.nfs "$stage" sbin && ln -sf mount.nfs "$stage/sbin/mount.nfs4"
}

prepare() { # KERNEL; sets KTREE KVER KIMG BASE
  need cpio depmod flock xz zstd
  mkdir -p "$CACHE" || die "cannot make $CACHE"
  exec 9>"$CACHE/.lock"
  flock 9
  case $1 in
    uml) uml_tree ;;
    5.10 | 6.1 | 6.12 | 7.3) need qemu-system-x86_64; cloud_tree "$1" ;;
    *) die "unknown kernel '$1' (uml, 5.10, 6.1, 6.12, 7.3)" ;;
  esac
  KVER=$(basename "$(echo "$KTREE"/lib/modules/*)")
  [ -d "$KTREE/lib/modules/$KVER" ] || die "no single kernel in $KTREE/lib/modules"
  local sum dir
  sum=$({ cat "$SELF" "$GUEST_PARTS"/*; cat "$KTREE/.done"; } | sha256sum | cut -c1-12)
  dir=$CACHE/boot-$KVER-$sum
  KIMG=$dir/vmlinux BASE=$dir/base.cpio
  if [ ! -e "$dir/.done" ]; then
    rm -rf "$dir"; mkdir -p "$dir/stage"
    [ "$1" = uml ] || unpack_vmlinux "$KTREE/boot/vmlinuz-$KVER" "$KIMG" ||
      cp "$KTREE/boot/vmlinuz-$KVER" "$KIMG"
    stage_root "$dir/stage"
    stage_modules "$dir/stage"
    (cd "$dir/stage" && find . | cpio -o -H newc --quiet -R 0:0 >"$BASE") || die "cpio failed"
    rm -rf "$dir/stage"
    : >"$dir/.done"
    # images of earlier versions of this script; a running guest may hold one of today's
    find "$CACHE" -maxdepth 1 -name "boot-$KVER-*" ! -path "$dir" -mmin +240 -exec rm -rf {} +
  fi
  flock -u 9
  exec 9>&-
}

# --- one run --------------------------------------------------------------------------------------

# Options of the run; W is its scratch folder, the rest are what cleanup has to end.
KERNEL=${KCLIENT_KERNEL:-6.12} NET=auto MEM=768 CPUS=1 TIMEOUT=300
OUT='' HOOK='' PCAP='' APPEND=${KCLIENT_APPEND:-} VERBOSE='' COMMANDS='' SCRIPT='' NAME=kc$$
ADDS=() SHARES=() BINS=() ENVS=()
W='' VM_PID='' HOOK_PID='' WATCH_PID='' CAT_PID='' DUMP_PID='' TAP=''

cleanup() {
  local pid
  for pid in "$WATCH_PID" "$HOOK_PID" "$CAT_PID" "$DUMP_PID"; do
    [ -n "$pid" ] && kill "$pid" 2>/dev/null
  done
  [ -n "$VM_PID" ] && kill -KILL "$VM_PID" 2>/dev/null && wait "$VM_PID" 2>/dev/null
  [ -n "$TAP" ] && ip link del "$TAP" 2>/dev/null
  [ -n "$W" ] && rm -rf "$W"
}

parse_options() { # sets the option variables and ARGS
  while [ $# -gt 0 ]; do
    case $1 in
      --verbose) VERBOSE=1; shift; continue ;;
      --) shift; break ;;
      -h | --help) usage; exit 0 ;;
    esac
    [ $# -ge 2 ] || die "option '$1' wants a value (--help)"
    case $1 in
      --kernel) KERNEL=$2 ;; --net) NET=$2 ;; --mem) MEM=$2 ;; --cpus) CPUS=$2 ;;
      --timeout) TIMEOUT=$2 ;; --hostname) NAME=$2 ;; --out) OUT=$2 ;; --hook) HOOK=$2 ;;
      --append) APPEND+=" $2" ;; --pcap) PCAP=$(readlink -m "$2") ;;
      --add) ADDS+=("$2") ;; --share) SHARES+=("$2") ;; --bin) BINS+=("$2") ;; --env) ENVS+=("$2") ;;
      -c) COMMANDS=$2; shift 2; break ;;
      *) die "unknown option '$1' (--help)" ;;
    esac
    shift 2
  done
  if [ -z "$COMMANDS" ]; then
    [ $# -ge 1 ] || die "no script (--help)"
    SCRIPT=$1; shift
    [ -r "$SCRIPT" ] || die "cannot read $SCRIPT"
  fi
  ARGS=("$@")
}

choose_net() { # NET becomes tap or user
  case $NET in
    auto)
      if [ "$(id -u)" = 0 ] && [ -c /dev/net/tun ]; then NET=tap; else NET=user; fi ;;
    user) ;;
    *) die "bad --net $NET (auto, user)" ;;
  esac
  [ "$KERNEL" != uml ] || [ "$NET" = tap ] || die "the uml kernel needs root and /dev/net/tun"
}

# A tap with a /30 of its own; sets TAP GUEST_IP HOST_IP. The guest can reach every address of this
# network namespace through it (except 127/8).
own_tap() {
  local number
  for _ in 1 2 3 4 5 6 7 8 9; do
    number=$((RANDOM % 16384))
    HOST_IP=10.214.$((number / 64)).$((number % 64 * 4 + 1))
    GUEST_IP=10.214.$((number / 64)).$((number % 64 * 4 + 2))
    ip tuntap add "kc$number" mode tap vnet_hdr 2>/dev/null || continue
    TAP=kc$number
    ip addr add "$HOST_IP/30" dev "$TAP" && ip link set "$TAP" up && return 0
    return 1
  done
  return 1
}

open_net() { # sets SERVER IP GATEWAY MAC
  MAC=$(printf '52:54:00:%02x:%02x:%02x' $((RANDOM % 256)) $((RANDOM % 256)) $((RANDOM % 256)))
  if [ "$NET" = tap ]; then
    own_tap || die "cannot make a tap device"
    IP=$GUEST_IP/30 GATEWAY=$HOST_IP SERVER=$HOST_IP
  else
    IP=10.0.2.15/24 GATEWAY=10.0.2.2 SERVER=10.0.2.2
  fi
}

# The initramfs of this run: the cached base followed by the script and what it brings along (the
# kernel takes concatenated archives).
pack_run() {
  local tree=$W/tree item source target
  mkdir -p "$tree/kc" "$tree/job"
  if [ -n "$COMMANDS" ]; then printf '#!/bin/sh\n%s\n' "$COMMANDS" >"$tree/kc/script"
  else cp "$SCRIPT" "$tree/kc/script"; fi
  chmod 755 "$tree/kc/script"
  : >"$tree/kc/args"
  for item in ${ARGS[@]+"${ARGS[@]}"}; do printf '%s\n' "$item" >>"$tree/kc/args"; done
  for item in ${ADDS[@]+"${ADDS[@]}"}; do
    source=${item%%:*} target=/job/$(basename "${item%%:*}")
    case $item in *:*) target=${item#*:} ;; esac
    mkdir -p "$tree$(dirname "$target")"
    cp -aL "$source" "$tree$target" || die "cannot add $source"
  done
  for item in ${BINS[@]+"${BINS[@]}"}; do
    copy_program "$(command -v "$item")" "$tree" usr/local/bin || die "cannot add program $item"
  done
  {
    echo "KC_IP='$IP' KC_GATEWAY='$GATEWAY' KC_HOST='$NAME' KC_TIMEOUT=$TIMEOUT KC_TIME=$(date +%s)"
    echo "KC_SHARES='${SHARES[*]#*:}'"
    for item in "SERVER=$SERVER" ${ENVS[@]+"${ENVS[@]}"}; do
      printf "export %s='%s'\n" "${item%%=*}" "$(printf %s "${item#*=}" | sed "s/'/'\\\\''/g")"
    done
  } >"$tree/kc/env"
  (cd "$tree" && find . | cpio -o -H newc --quiet -R 0:0 >"$W/run.cpio") || die "cpio failed"
  cat "$BASE" "$W/run.cpio" >"$W/initrd"
  rm -rf "$tree" "$W/run.cpio"
}

# Channels: o = the script's output, r = the result (first line "rc=...", then a tar), h = the hook.
open_channels() {
  mkfifo "$W/h.in" "$W/h.out" "$W/o"
  : >"$W/r"
  : >"$W/console.log"
  if [ -n "$HOOK" ]; then
    (
      exec 3<>"$W/h.out" 4<>"$W/h.in"
      while IFS= read -r line <&3; do
        # shellcheck disable=SC2086 # the words of the guest's command
        "$HOOK" ${line%$'\r'} >>"$W/hook.log" 2>&1 </dev/null 3<&- 4>&-
        echo $? >&4
      done
    ) &
    HOOK_PID=$!
  fi
  cat "$W/o" &
  CAT_PID=$!
}

# Ends a guest that outlives its time or has panicked (a panicked UML may spin instead of leaving;
# unshare ignores TERM, hence KILL).
watch_guest() {
  local second=0
  while [ $second -lt $((TIMEOUT + 30)) ]; do
    sleep 1
    second=$((second + 1))
    if grep -aq 'Kernel panic' "$W/console.log"; then sleep 2; break; fi
  done
  kill -KILL "$VM_PID"
}

# The cloud kernels share no folder with their host, but they read a disk; sets DISKS.
pack_shares() {
  local share image number=0
  DISKS=()
  [ ${#SHARES[@]} = 0 ] || need mkfs.ext4
  for share in ${SHARES[@]+"${SHARES[@]%%:*}"}; do
    number=$((number + 1)) image=$W/share$number
    # room for the file system's own tables beside the files, and for their last blocks
    truncate -s $(($(du -sm "$share" | cut -f1) * 5 / 4 + 32))M "$image" || die "no room for $share"
    mkfs.ext4 -q -O ^has_journal -m 0 -d "$share" "$image" || die "cannot make an image of $share"
    DISKS+=(-drive "file=$image,format=raw,readonly=on,if=none,id=share$number"
      -device "virtio-blk-pci,drive=share$number")
  done
}

# The clock is one of QEMU's. Its ACPI timer wraps every 4.7 s, and a guest that QEMU left standing
# for most of that takes the time for negative and never gets on; the HPET wraps every 43 s.
# Without ERMS/FSRM the guest kernel copies with 8-byte moves; QEMU executes 'rep movsb' byte by byte.
start_qemu() {
  local net=(-netdev 'user,id=n0')
  [ "$NET" = tap ] && net=(-netdev "tap,id=n0,ifname=$TAP,script=no,downscript=no,vhost=off")
  [ -n "$PCAP" ] && net+=(-object "filter-dump,id=d0,netdev=n0,file=$PCAP,maxlen=262144")
  pack_shares
  (cd "$W" && TMPDIR=$W exec qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
    -machine pc,usb=off,graphics=off -accel tcg,thread=multi,tb-size=512 -cpu max,-erms,-fsrm \
    -smp "$CPUS" -m "$MEM" -kernel "$KIMG" -initrd "$W/initrd" \
    -append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr clocksource=hpet no_timer_check random.trust_cpu=1 rcupdate.rcu_expedited=1 audit=0 $APPEND" \
    -serial "file:$W/console.log" -device virtio-serial-pci \
    -chardev "file,id=o,path=$W/o" -device virtserialport,chardev=o,name=kc.o \
    -chardev "file,id=r,path=$W/r" -device virtserialport,chardev=r,name=kc.r \
    -chardev "pipe,id=h,path=$W/h" -device virtserialport,chardev=h,name=kc.h \
    -device virtio-rng-pci "${net[@]}" -device "virtio-net-pci,netdev=n0,romfile=,mac=$MAC" \
    ${DISKS[@]+"${DISKS[@]}"} \
    </dev/null >"$W/vm.log" 2>&1) &
  VM_PID=$!
}

# UML runs in a chroot of its own, in private mount and pid namespaces.
start_uml() {
  local args=(mem="${MEM}M" initrd=/w/initrd con=null 'con0=null,fd:4' 'con1=null,fd:5'
    'con2=fd:6,fd:7'
    ssl=null console=tty0 quiet loglevel=4 panic=-1 oops=panic umid="kc$$" uml_dir=/tmp/ seccomp=on
    "vec0:transport=tap,ifname=$TAP,depth=64,gro=1,mac=$MAC")
  if [ -n "$PCAP" ]; then
    need tcpdump
    tcpdump -q -i "$TAP" -s 262144 -U -w "$PCAP" >"$W/pcap.log" 2>&1 &
    DUMP_PID=$!
    sleep 0.5
  fi
  for share in ${SHARES[@]+"${SHARES[@]%%:*}"}; do
    [ -d "$share" ] || die "no folder $share to share"
  done
  # shellcheck disable=SC2086,SC2016 # APPEND is words; the inner script expands its own arguments
  (exec 5>"$W/o" 4>"$W/console.log" 6<>"$W/h.in" 7<>"$W/h.out"
    exec unshare -m -p -f --kill-child=KILL bash -c '
      jail=$1 w=$2 shares=$3; shift 3
      # disks of tests beside this one: nobody could take them away for good before the guest has ended
      while read -r disk place _; do
        case $disk in /dev/loop*) ;; *) continue ;; esac
        case "$jail $w $shares" in *"$place"*) ;; *) umount -l "$place" ;; esac
      done </proc/mounts
      mount -t tmpfs kcjail /mnt && mkdir /mnt/j && mount --bind "$jail" /mnt/j &&
      mount -o remount,bind,ro /mnt/j && mount -t tmpfs -o mode=1777 tmp /mnt/j/tmp &&
      mount --rbind /dev /mnt/j/dev && mount -t tmpfs shm /mnt/j/dev/shm &&
      mount -t proc proc /mnt/j/proc && mount --bind "$w" /mnt/j/w || exit 126
      for share in $shares; do
        number=$((number + 1)) place=/mnt/j/tmp/share$number
        mkdir $place && mount --bind "$share" $place && mount -o remount,bind,ro $place || exit 126
      done
      exec env -i HOME=/tmp TMPDIR=/dev/shm "$(command -v chroot)" /mnt/j /linux "$@"
    ' kcuml "$KTREE/jail" "$W" "${SHARES[*]%%:*}" "${args[@]}" $APPEND </dev/null >"$W/vm.log" 2>&1) &
  VM_PID=$!
}

run_guest() { # sets VM_STATUS WALL_MS
  local start end
  start=$(date +%s%N)
  if [ "$KERNEL" = uml ]; then start_uml; else start_qemu; fi
  watch_guest >/dev/null 2>&1 </dev/null &
  WATCH_PID=$!
  wait "$VM_PID" 2>/dev/null
  VM_STATUS=$? VM_PID=''
  end=$(date +%s%N)
  WALL_MS=$(((end - start) / 1000000))
  kill "$WATCH_PID" 2>/dev/null
  WATCH_PID=''
  if [ -n "$DUMP_PID" ]; then
    sleep 0.5
    kill "$DUMP_PID" 2>/dev/null; wait "$DUMP_PID" 2>/dev/null
    DUMP_PID=''
  fi
  : 1<>"$W/o" # lets cat end even if the guest never opened the fifo
  wait "$CAT_PID"
  CAT_PID=''
}

# Kernel complaints that fail any test; the same pattern stands in the integration tests.
COMPLAINTS='WARNING: |BUG:|Oops|Kernel panic|blocked for more than|soft lockup|rcu.*stall'

collect() { # brings the results home; sets RC
  local complaints
  RC=125
  if [ "$(head -c 3 "$W/r")" = "rc=" ]; then
    RC=$(head -1 "$W/r" | sed 's/^rc=//;s/ .*//')
    tail -n +2 "$W/r" >"$W/out.tar"
  elif [ "$WALL_MS" -ge $(((TIMEOUT + 30) * 1000)) ]; then
    RC=124
  fi
  sed -i 's/\r$//' "$W/console.log"
  if [ ! -s "$W/out.tar" ]; then
    say "guest ended without a result (status $VM_STATUS); last console lines:"
    tail -25 "$W/console.log" >&2
    cat "$W/vm.log" >&2
  elif [ -s "$W/vm.log" ] && [ "$KERNEL" != uml ]; then
    sed 's/^/kclient: qemu: /' "$W/vm.log" >&2
  fi
  [ -n "$VERBOSE" ] && cat "$W/console.log" >&2
  complaints=$(grep -acE "$COMPLAINTS" "$W/console.log")
  [ "$complaints" = 0 ] || say "kernel complaints in the console log: $complaints lines"
  if [ -n "$OUT" ]; then
    mkdir -p "$OUT" || die "cannot make $OUT"
    [ -s "$W/out.tar" ] && tar -xf "$W/out.tar" -C "$OUT" --no-same-owner
    cp "$W/console.log" "$OUT/console.log"
    [ -e "$W/hook.log" ] && cp "$W/hook.log" "$OUT/hook.log"
    { printf '%s\n' "kernel=$KVER" "rc=$RC" "wall_ms=$WALL_MS" "kernel_complaints=$complaints"
      head -1 "$W/r" | tr ' ' '\n' | grep -a '^up_'; } >"$OUT/meta.txt"
  fi
  say "kernel $KVER, rc $RC, $WALL_MS ms"
}

main() {
  parse_options "$@"
  choose_net
  prepare "$KERNEL"
  W=$(mktemp -d "${TMPDIR:-/tmp}/kclient.XXXXXX") || exit 126
  trap cleanup EXIT
  trap 'exit 130' INT TERM
  open_net
  pack_run
  open_channels
  run_guest
  collect
  exit "$RC"
}

case ${1:-} in
  prepare)
    shift
    [ "${1:-}" = --kernel ] && KERNEL=${2:-}
    prepare "$KERNEL"
    say "ready: $KVER in $CACHE" ;;
  '') die "no script (--help)" ;;
  *) main "$@" ;;
esac
