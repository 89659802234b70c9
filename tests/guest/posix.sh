#!/bin/sh
# posix.sh PORT ALLOWED-4.1 ALLOWED-4.2: what programs see on Weft is what they see on a local file
# system. The steps run on tmpfs and on the mount, and their transcripts must be equal; then
# nfssmoke must pass, skipping at most the (comma-separated) tests allowed for that version.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1

smoke() { # LABEL DIR ALLOWED
  nfssmoke "$2" >/tmp/smoke
  failed=$?
  sed "s/^/[$1] /" /tmp/smoke
  [ $failed = 0 ] || fail "$1: $failed tests of nfssmoke failed"
  grep -q '^1\.\.31$' /tmp/smoke || fail "$1: nfssmoke did not run its 31 tests"
  sed -n 's/^ok [0-9]* - \([a-z]*\) .* # SKIP.*/\1/p' /tmp/smoke | while read -r skipped; do
    case ,$3, in
      *,$skipped,*) ;;
      *) echo "$skipped" ;;
    esac
  done >/tmp/unexpected
  [ ! -s /tmp/unexpected ] || fail "$1: not supported: $(tr '\n' ' ' </tmp/unexpected)"
}

steps() { # DIR TRANSCRIPT
  mkdir "$1" || fail "mkdir $1"
  (cd "$1" && sh /job/posix-steps.sh) >"$2" 2>&1 || fail "the steps broke off in $1"
}

steps /tmp/local /out/local.txt
[ "$(wc -l </out/local.txt)" -gt 100 ] || fail "the transcript of the local run is too short"
smoke tmpfs /tmp xattr,acl,fallocate,seek,clone,direct
for version in 4.1 4.2; do
  mount_weft /mnt $version "$port"
  steps /mnt/steps-$version /out/weft-$version.txt
  diff /out/local.txt /out/weft-$version.txt || fail "vers=$version differs from tmpfs (- local, + Weft)"
  case $version in
    4.1) smoke $version /mnt "$2" ;;
    *) smoke $version /mnt "$3" ;;
  esac
  # How often the client used an operation.
  for op in SEEK ALLOCATE DEALLOCATE COPY; do
    proof $version $op "$(sed -n "s/^[[:space:]]*$op: \([0-9]*\) .*/\1/p" /proc/self/mountstats)"
  done
  # What was left behind is there again after a remount, and can be removed.
  (cd /mnt/steps-$version && find . | sort) >/tmp/before
  unmount /mnt
  drop_caches
  mount_weft /mnt $version "$port"
  (cd /mnt/steps-$version && find . | sort) >/tmp/after
  diff /tmp/before /tmp/after || fail "vers=$version: the tree changed over a remount"
  rm -r /mnt/steps-$version /mnt/smoke.* || fail "vers=$version: cannot remove the tree"
  [ ! -e /mnt/steps-$version ] || fail "vers=$version: the removed tree is still there"
  proof $version steps "$(wc -l </out/local.txt)"
  unmount /mnt
done
