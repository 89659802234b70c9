#!/bin/sh
# xfstests.sh SERVER XFSTESTS PROGRAMS TEST SCRATCH SECONDS OUT WORD...: xfstests on two FUSE mounts of this
# machine, which are `weft mount`s of the directories TEST and SCRATCH (HOST:PORT:/PATH), or a `passthrough`
# of two local ones. PROGRAMS holds the program that serves them. WORDs are for `check`; no test gets more
# than SECONDS; what failed tests left goes to OUT. Each outcome is a line of descriptor 3.
# Run it as root with mounts and processes of its own: `unshare --mount --pid --fork --kill-child`.
# shellcheck source-path=SCRIPTDIR source=../guest/xfstests-steps.sh
. "$(dirname "$0")/../guest/xfstests-steps.sh"
server=$1 xfstests=$2 programs=$3 test=$4 scratch=$5 seconds=$6 out=$7
shift 7
root=/mnt # of these processes alone

fail() {
  echo "FAIL: $*"
  exit 1
}

host() { echo "$*" >&3; }

bind() { mkdir -p "$2" && mount --rbind "$1" "$2"; }

# A mount of type fuse.passthrough starts the program of that name, with its source, place and options.
make_passthrough() {
  cat >$root/programs/passthrough <<'END'
#!/bin/sh
ulimit -n 65536 2>/dev/null
exec /programs/passthrough_ll -o "fsname=$1,source=/srv/$1,allow_other,default_permissions,xattr,$4" "$2"
END
  chmod 755 $root/programs/passthrough
  bind "$test" $root/srv/test
  bind "$scratch" $root/srv/scratch
  test=test scratch=scratch
}

make_root() {
  mount -t tmpfs tmpfs $root
  cd $root || fail "no $root"
  mkdir programs tests
  cp -r "$programs"/* programs
  bind "$xfstests" xfstests
  bind "$out" out
  bind /usr usr
  mount --bind programs usr/local/bin # mount.fuse finds them there
  [ "$server" = weft ] || make_passthrough
  mount -t tmpfs tmpfs /tmp
  mount -t tmpfs tmpfs /run
  mount -t proc proc /proc
  mkdir /tmp/etc
  for name in ld.so.cache protocols services netconfig mke2fs.conf alternatives; do
    [ ! -e /etc/$name ] || cp -r /etc/$name /tmp/etc
  done
  make_debian /tmp/etc
  copy_tests $root/tests
  cat >local.config <<END
export FSTYP=fuse FUSE_SUBTYP=.$server
export TEST_DEV=$test TEST_DIR=/mnt/test
export SCRATCH_DEV=$scratch SCRATCH_MNT=/mnt/scratch
export RESULT_BASE=/tmp/results
END
}

mount --make-rprivate /
make_root
run_check $root "$seconds" $root/out /tmp/results "$@"
