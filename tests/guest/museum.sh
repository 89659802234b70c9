#!/bin/sh
# museum.sh PORT: the acts of museum.c on tmpfs and on the mount, each outcome on a line of its own
# that begins with the place, and two acts in which another client has a part.
# shellcheck source-path=SCRIPTDIR source=common.sh
. /job/common.sh
port=$1
text='by this client'

says() { # ACT STATUS: the outcome of an act of this script
  if [ "$2" = 0 ]; then echo "kernel ok $1"; else echo "kernel not ok $1: $3"; fi
}

# Another client writes a file that this one has open and delegated.
recalled() {
  echo "$text" >/mnt/recalled
  exec 8</mnt/recalled
  cat <&8 >/dev/null
  host rewrite || return 1
  exec 8<&-
  [ "$(cat /mnt/recalled)" = 'by another client' ]
}

# Another client replaces a file that this one has open.
replaced() {
  echo "$text" >/mnt/replaced
  exec 8</mnt/replaced
  host replace || return 1
  drop_caches
  [ "$(cat <&8)" = "$text" ]
}

mkdir /tmp/museum
museum /tmp/museum all | sed 's/^/tmpfs /'
mount_weft /mnt 4.2 "$port"
mkdir /mnt/in-the-guest
museum /mnt/in-the-guest all | sed 's/^/kernel /'
recalled
says recalled_file_is_given_back $? "it reads $(cat /mnt/recalled)"
replaced
says replaced_file_is_read $? 'it is not what was opened'
exec 8<&-
for act in recalled_file_is_given_back replaced_file_is_read; do echo "tmpfs ok $act"; done
unmount /mnt
