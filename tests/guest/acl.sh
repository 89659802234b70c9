#!/bin/sh
# acl.sh PORT VERSION: access control lists as users meet them, by nfs4-acl-tools, chmod and cp.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
version=$2

# as USER[,GROUP...] COMMAND...: USER's group has the user's number.
as() {
  who=$1
  shift
  user=${who%%,*}
  /usr/local/bin/setpriv --reuid "$user" --regid "$user" --groups "$who" --inh-caps=-all "$@"
}

may() { as "$@" >/dev/null 2>/tmp/why || fail "$* by right, and: $(cat /tmp/why)"; }

may_not() { # WHO COMMAND...: refused, and for this reason
  as "$@" >/dev/null 2>/tmp/why && fail "$* and should not"
  grep -q -i 'permission denied\|not permitted' /tmp/why || fail "$*: $(cat /tmp/why)"
}

setfacl() { nfs4_setfacl "$@" 2>/tmp/why || fail "nfs4_setfacl $*: $(cat /tmp/why)"; }

# What a file's list is, an entry a line.
list() { nfs4_getfacl "$1" | grep -v '^#' | grep .; }

has() { list "$1" | grep -qxF "$2" || fail "$1 has no entry $2: $(list "$1")"; }

mode_is() { [ "$(stat -c %a "$1")" = "$2" ] || fail "$1 has mode $(stat -c %a "$1"), not $2"; }

names() { # who is named: allowed, denied, by group
  echo words >notes
  chmod 640 notes
  may_not 1002 cat notes
  setfacl -a A::1002:r notes
  has notes A::1002:r
  may 1002 cat notes
  may_not 1003 cat notes
  may_not 1002 sh -c 'echo more >>notes'
  mode_is notes 640
  # The first word counts, and it is set before the others.
  setfacl -a D::1002:r notes
  may_not 1002 cat notes
  setfacl -x D::1002:r notes
  may 1002 cat notes
  setfacl -a A:g:2000:rwa notes
  may 1003,2000 sh -c 'echo more >>notes'
  may_not 1003 cat notes
  # Whole classes of rights, as users write them; and the denial of all that.
  setfacl -a A::1004:RWX notes
  may 1004 sh -c 'echo more >>notes; cat notes'
  setfacl -a D::1004:W notes
  may_not 1004 sh -c 'echo more >>notes'
  setfacl -a D::1004:rwax notes
  may_not 1004 cat notes
}

chmods() { # chmod and lists are one
  chmod 600 notes
  mode_is notes 600
  may_not 1002 cat notes
  may_not 1003,2000 cat notes
  chmod 664 notes
  mode_is notes 664
  may_not 1004 cat notes
  may 1005 cat notes
  setfacl -s A::OWNER@:rwatTcCy notes
  mode_is notes 600
  # The list of a mode is none: the mode alone counts again.
  chmod 755 notes
  may 1002 cat notes
}

inherits() { # what is made in a directory
  mkdir lab
  chmod 700 lab
  setfacl -a A:fd:1002:rwaDx lab
  setfacl -a A:fdg:2000:rx lab
  setfacl -a D:fi:1003:r lab
  # With 4.1 the client takes the umask away, and names get no more than the group.
  mask=002
  [ "$version" = 4.1 ] || mask=027
  (umask $mask && echo words >lab/file && mkdir lab/deep && echo words >lab/deep/file)
  may 1002 cat lab/file
  may 1002 cat lab/deep/file
  may 1003,2000 ls lab lab/deep
  may_not 1003,2000 cat lab/deep/file
  may_not 1004 ls lab
  # What holds and what is handed on are apart after a mode was set.
  has lab/deep A::1002:rwaDx
  has lab/deep A:fdi:1002:rwaDx
  has lab/deep D:fi:1003:r
  has lab/file D::1003:r
  may 1002 touch lab/deep/other
  may 1002 rm lab/deep/other
  may_not 1003,2000 touch lab/deep/other
  # With its own list for all that is below.
  setfacl -R -s A::OWNER@:rwaDxtTnNcCoy,A::1005:rx lab
  may 1005 cat lab/deep/file
  may_not 1002 cat lab/deep/file
}

copies() { # as copying programs find and leave lists
  echo words >one
  setfacl -s A::OWNER@:rwatTcCy,A::1002:r,D::1003:r,A::EVERYONE@:tcy one
  list one >/tmp/one
  nfs4_getfacl one | grep -v '^#' | nfs4_setfacl -S - two 2>/dev/null && fail "no such file"
  : >two
  list one | nfs4_setfacl -S - two || fail "nfs4_setfacl -S"
  list two >/tmp/two
  cmp /tmp/one /tmp/two || fail "a list that was told is not the list that was set"
  /usr/local/bin/cp -a one three || fail "cp -a"
  mode_is three 600
  [ "$(cat three)" = words ] || fail "what cp -a copied is $(cat three)"
  # The client gives its delegation back for this; what it hears of that must not come after the new mode.
  for name in $(seq 40); do
    echo words >"one.$name"
    setfacl -s A::OWNER@:rwatTcCy,A::1002:r,A::EVERYONE@:tcy "one.$name"
    mode_is "one.$name" 600
  done
}

limits() { # a thousand names; more are refused, and nothing is changed
  : >many
  entries() { echo A::OWNER@:rwatTcCy && seq 3001 $((3000 + $1)) | sed 's/.*/A::&:r/'; }
  entries 1000 | nfs4_setfacl -S - many || fail "1000 names"
  [ "$(list many | wc -l)" = 1001 ] || fail "$(list many | wc -l) entries instead of 1001"
  may 4000 cat many
  may_not 4001 cat many
  entries 1001 | nfs4_setfacl -S - many 2>/dev/null && fail "1001 names were taken"
  chmod 640 many
  may 3001 cat many
  [ "$(list many | grep -c 'A::[34].*:r')" = 1000 ] || fail "chmod lost names"
  setfacl -x A::3002:r many
  may_not 3002 cat many
}

mount_weft /mnt "$version" "$1"
mkdir "/mnt/acl.$version" || fail "mkdir"
cd "/mnt/acl.$version" || fail "no directory"
chmod 755 .
for part in names chmods inherits copies limits; do
  $part
done
list many >/tmp/before
cd / && unmount /mnt
drop_caches
mount_weft /mnt "$version" "$1"
cd "/mnt/acl.$version" || fail "no directory after a remount"
list many >/tmp/after
cmp /tmp/before /tmp/after || fail "another list after a remount"
may 3001 cat many
cd / && unmount /mnt
proof "$version" parts 5
